package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/workspace"
)

// program is what boxes have for capture, beside the script (vmm/guest/capture).
const program = "agentbox-capture"

// takeProgram is what they have to take a small pack (bring).
const takeProgram = "agentbox-take"

// question is what capture is asked in a box.
func (k *keepRun) question() environment.Command {
	rest, same := "", ""
	if k.req.Rest {
		rest = "1"
	}
	if k.req.All {
		same = "1"
	}
	return environment.Command{Argv: []string{"sh", "-c", capture}, Dir: k.req.Dir, Env: map[string]string{
		"BASE": k.req.Base, "ID": path.Base(k.req.Ref), "LARGE": strconv.Itoa(maxLarge >> 10), "MOST": strconv.Itoa(maxAlso), "NEWEST": strconv.Itoa(workspace.MaxCommits), "LIST": "",
		"REST": rest, "SAME": same, "ARTIFACTS": strings.Join(k.req.Artifacts, "\n"),
	}}
}

// ask has a box's own program answer a question, and cmd where there is none, or it fails: that is the
// slower of two ways to say the same. talk reads what they write, and answers it.
func ask(ctx context.Context, guest Guest, cmd environment.Command, talk func(ctx context.Context, in *bufio.Reader, answer func(string)) error) error {
	native := cmd
	native.Argv = append([]string{program}, cmd.Argv...)
	err := askOnce(ctx, guest, native, talk)
	if err == nil || ctx.Err() != nil || agentbox.CodeOf(err) == agentbox.NoSpace {
		return err
	}
	return askOnce(ctx, guest, cmd, talk)
}

// askOnce runs a command in a box and has talk read what it writes and answer it, once. What talk does
// not answer is the end of the command's input.
func askOnce(ctx context.Context, guest Guest, cmd environment.Command, talk func(ctx context.Context, in *bufio.Reader, answer func(string)) error) error {
	var complaints bytes.Buffer
	in := &answer{given: make(chan struct{})}
	cmd.Stdin, cmd.Stderr = in, &bounded.Head{W: &complaints, Remaining: maxComplaint}
	return background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		cmd.Stdout = w
		status, err := guest.Exec(ctx, cmd)
		if err == nil && status.Code != 0 {
			why, _, _ := strings.Cut(strings.TrimSpace(complaints.String()), "\n")
			err = invalidAnswerError(fmt.Errorf("git ended with exit code %d: %s", status.Code, agentbox.Printable(why)))
		}
		return err
	}, func(ctx context.Context, r io.Reader) error {
		defer in.give("")
		return talk(ctx, bufio.NewReader(r), in.give)
	})
}

// answer is the input of a command, which is known later. It never keeps its writer waiting: the
// command may be another than ours, and not read it.
type answer struct {
	given chan struct{} // closed when text is set
	once  sync.Once
	text  *strings.Reader
}

func (a *answer) give(text string) {
	a.once.Do(func() {
		a.text = strings.NewReader(text)
		close(a.given)
	})
}

// Read implements io.Reader. It waits for the answer.
func (a *answer) Read(p []byte) (int, error) {
	<-a.given
	return a.text.Read(p)
}

// maxComplaint bounds what is kept of a box's errors, in bytes.
const maxComplaint = 4 << 10
