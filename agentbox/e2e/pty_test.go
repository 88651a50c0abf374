package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// cmdPTY runs a command whose standard streams are a terminal, and holds a dialogue with it. Each
// line of the dialogue is one of
//
//	expect REGEXP     wait until the terminal shows it, after the match of the last expect
//	send TEXT         type TEXT and the enter key
//	type TEXT         type TEXT, with Go escapes such as \x03
//	resize COLS ROWS
//	exit CODE         wait for the end
func cmdPTY(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "pty FILE CMD...")
	terminal, user, err := openPTY()
	ts.Check(err)
	d := &dialogue{terminal: terminal, done: make(chan struct{})}
	d.cmd = exec.Command(lookPath(ts, args[1]), args[2:]...)
	d.cmd.Dir, d.cmd.Env = ts.MkAbs("."), environ(ts)
	d.cmd.Stdin, d.cmd.Stdout, d.cmd.Stderr = user, user, user
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = d.cmd.Start()
	user.Close()
	if err != nil {
		terminal.Close()
		ts.Fatalf("start %s: %v", args[1], err)
	}
	go d.read()
	err = d.hold(ts.ReadFile(args[0]))
	_ = d.cmd.Process.Kill() // it has ended, unless the dialogue failed
	_ = d.cmd.Wait()
	terminal.Close()
	<-d.done
	ts.Logf("[terminal]\n%q", d.text())
	ts.Check(err)
}

// scriptVars are the variables for a script's commands, since testscript does not export its list.
var scriptVars = []string{"AGENTBOX_HOME", "AGENTBOX_ISOLATION", "AGENTBOX_POOL", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "HOME", "PATH", "NO_COLOR"}

func environ(ts *testscript.TestScript) []string {
	vars := []string{"TERM=xterm"}
	for _, name := range scriptVars {
		vars = append(vars, name+"="+ts.Getenv(name))
	}
	return vars
}

func lookPath(ts *testscript.TestScript, name string) string {
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), ":") {
		if info, err := os.Stat(dir + "/" + name); err == nil && info.Mode().IsRegular() {
			return dir + "/" + name
		}
	}
	return name
}

// openPTY returns both ends of a new terminal with 80 columns and 24 rows.
func openPTY() (terminal, user *os.File, err error) {
	terminal, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(terminal.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: 80, Row: 24})
	}
	if err == nil {
		user, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		terminal.Close()
		return nil, nil, err
	}
	return terminal, user, nil
}

// dialogue is a dialogue with a command on a terminal.
type dialogue struct {
	cmd      *exec.Cmd
	terminal *os.File
	done     chan struct{} // closed when the terminal shows nothing more

	mu    sync.Mutex
	shown []byte
	seen  int // bytes of shown that an expect has found
}

func (d *dialogue) read() {
	defer close(d.done)
	buf := make([]byte, 4<<10)
	for {
		n, err := d.terminal.Read(buf)
		d.mu.Lock()
		d.shown = append(d.shown, buf[:n]...)
		d.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (d *dialogue) text() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Clone(d.shown)
}

func (d *dialogue) hold(script string) error {
	for i, line := range strings.Split(strings.TrimSpace(script), "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		if err := d.step(verb, rest); err != nil {
			return fmt.Errorf("line %d of the dialogue, %q: %w", i+1, line, err)
		}
	}
	return nil
}

func (d *dialogue) step(verb, rest string) error {
	switch verb {
	case "expect":
		return d.expect(rest)
	case "send":
		_, err := d.terminal.WriteString(rest + "\r")
		return err
	case "type":
		text, err := strconv.Unquote(`"` + rest + `"`)
		if err == nil {
			_, err = d.terminal.WriteString(text)
		}
		return err
	case "resize":
		var size unix.Winsize
		if _, err := fmt.Sscan(rest, &size.Col, &size.Row); err != nil {
			return err
		}
		return unix.IoctlSetWinsize(int(d.terminal.Fd()), unix.TIOCSWINSZ, &size)
	case "exit":
		return d.exit(rest)
	}
	return fmt.Errorf("no such step")
}

const dialogueWait = 10 * time.Minute

func (d *dialogue) expect(pattern string) error {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(dialogueWait); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		d.mu.Lock()
		at := re.FindIndex(d.shown[d.seen:])
		if at != nil {
			d.seen += at[1]
		}
		d.mu.Unlock()
		if at != nil {
			return nil
		}
	}
	return fmt.Errorf("not shown within %v", dialogueWait)
}

func (d *dialogue) exit(code string) error {
	kill := time.AfterFunc(dialogueWait, func() { _ = d.cmd.Process.Kill() })
	defer kill.Stop()
	_ = d.cmd.Wait() // the exit code is checked below
	if got := d.cmd.ProcessState.ExitCode(); strconv.Itoa(got) != code {
		return fmt.Errorf("exit code %d", got)
	}
	return nil
}
