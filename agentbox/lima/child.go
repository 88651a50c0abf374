package lima

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"

	"agentbox/agentbox"
)

// Failed is the field of a log line with which agentbox-lima says what kind of error ends it.
const Failed = "agentbox"

// line is a line of the program's log, as logrus writes it.
type line struct {
	Level string        `json:"level"`
	Text  string        `json:"msg"`
	Error string        `json:"error"`
	Code  agentbox.Code `json:"agentbox"`
}

// log follows what the program says: its progress, and what it failed of.
type log struct {
	progress agentbox.Progress
	failure  line // the last line that is an error, the last fatal one if there is any
}

// maxLine bounds one line of the log.
const maxLine = 64 << 10

// read reads the log to its end. What is no line of logrus's is from a program that Lima ran, or a
// trace of ours, and is an error unless a later line is.
func (l *log) read(r io.Reader) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		l.add(in.Bytes())
	}
	io.Copy(io.Discard, r) // the program must not wait for us
}

func (l *log) add(text []byte) {
	var of line
	if err := json.Unmarshal(text, &of); err != nil {
		of = line{Level: "error", Text: string(bytes.TrimSpace(text))}
	}
	if of.Error != "" {
		of.Text += ": " + of.Error
	}
	switch of.Level {
	case "fatal", "panic", "error":
		if of.Text != "" && (l.failure.Level != "fatal" || of.Level == "fatal") {
			l.failure = of
		}
	case "info":
		l.progress.Note("lima: " + of.Text)
	}
}

// run runs the program for one act. If ctx ends, the program is killed; a host agent that it has
// started goes on, and the next act finds it.
func (vm VM) run(ctx context.Context, stdin io.Reader, act string) (Instance, error) {
	cmd := exec.CommandContext(ctx, vm.Program, act, vm.Name)
	cmd.Env = append(os.Environ(), "LIMA_HOME="+vm.Home)
	if vm.emulate {
		cmd.Env = append(cmd.Env, Emulate+"=1")
	}
	cmd.Stdin = stdin
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return Instance{}, err
	}
	if err := cmd.Start(); err != nil {
		return Instance{}, agentbox.Errorf(agentbox.Missing, "start %s: %w", vm.Program, err)
	}
	said := log{progress: vm.Progress}
	said.read(stderr)
	err = cmd.Wait()
	var inst Instance
	switch {
	case ctx.Err() != nil:
		return inst, ctx.Err()
	case err != nil:
		return inst, vm.explain(act, said.failure, err)
	case json.Unmarshal(stdout.Bytes(), &inst) != nil:
		return inst, agentbox.Errorf(agentbox.Internal, "agentbox-lima %s answers %.100q", act, stdout.Bytes())
	}
	return inst, nil
}

// causes are words in what Lima says, and what they mean for its user. Lima has no codes.
var causes = []struct {
	words string
	code  agentbox.Code
	hint  string
}{
	{"no space left on device", agentbox.NoSpace, "free some room; agentbox prune frees what no box needs"},
	{"is too old", agentbox.Missing, "install a newer QEMU"},
	{`"qemu-`, agentbox.Missing, "install QEMU: apt-get install qemu-system-x86 qemu-utils (arm64: qemu-system-arm), or brew install qemu"},
	{`"ssh-keygen"`, agentbox.Missing, "install OpenSSH: apt-get install openssh-client"},
	{"UNIX_PATH_MAX", agentbox.Invalid, "set AGENTBOX_HOME to a shorter path: Lima's sockets are below it"},
	{"failed to download", agentbox.Unavailable, "agentbox lima create --image FILE makes the machine from an image that you have"},
	{"seems running", agentbox.Conflict, "agentbox lima stop, then the command again"},
}

func (vm VM) explain(act string, said line, err error) error {
	if said.Text == "" {
		said.Text = err.Error()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() < 0 {
			said.Text = "agentbox-lima was killed: " + said.Text
		}
	}
	code, hint := said.Code, ""
	for _, c := range causes {
		if strings.Contains(said.Text, c.words) {
			code, hint = c.code, c.hint
			break
		}
	}
	switch {
	case code == agentbox.NotFound:
		hint = "agentbox lima start makes one"
	case code == "":
		code = agentbox.Unavailable
		if act == "start" {
			hint = "what it printed is in " + vm.Home + "/" + vm.Name + " (ha.stderr.log, serial*.log); agentbox lima rm removes the machine, and the next start makes another"
		}
	}
	e := agentbox.Errorf(code, "lima: %s %s: %s", act, vm.Name, said.Text)
	if hint != "" {
		e = e.WithHint("%s", hint)
	}
	return e
}
