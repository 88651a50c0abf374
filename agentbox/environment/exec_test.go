package environment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
)

func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// everyWay runs a test over the exact-arguments request, over a stock server, and through a relay
// to each.
func everyWay(t *testing.T, f func(t *testing.T, c *ssh.Client)) {
	for _, way := range []struct {
		name          string
		noArgv, relay bool
	}{{"argv", false, false}, {"stock", true, false}, {"relay", false, true}, {"relay to stock", true, true}} {
		t.Run(way.name, func(t *testing.T) {
			s := startServer(t, way.noArgv)
			c := s.dial(t)
			if way.relay {
				c = dialRelay(t, startRelay(t, s, fixed(c)), s.login())
			}
			f(t, c)
		})
	}
}

func run(t testing.TB, c *ssh.Client, cmd Command) (Status, string, string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	st, err := Exec(ctx, c, cmd)
	if err != nil {
		t.Fatalf("%q: %v", cmd.Argv, err)
	}
	return st, out.String(), errs.String()
}

func TestExec(t *testing.T) {
	odd := []string{"printf", "%s\n", "a b", "", "$HOME", "it's", "new\nline", "\xff\xfe", "*", "-n", `back\slash`}
	everyWay(t, func(t *testing.T, c *ssh.Client) {
		st, out, errs := run(t, c, Command{Argv: []string{"sh", "-c", "cat; echo err >&2; exit 7"}, Stdin: strings.NewReader("in")})
		if st != (Status{Code: 7}) || out != "in" || errs != "err\n" {
			t.Errorf("got %v, %q, %q", st, out, errs)
		}
		if _, out, _ = run(t, c, Command{Argv: odd}); out != strings.Join(odd[2:], "\n")+"\n" {
			t.Errorf("arguments arrived as %q", out)
		}
		dir := t.TempDir()
		st, out, _ = run(t, c, Command{Argv: []string{"sh", "-c", `pwd; echo "$A"`}, Dir: dir, Env: map[string]string{"A": "x 'y'"}})
		if out != dir+"\nx 'y'\n" || st.Code != 0 {
			t.Errorf("directory and environment arrived as %q", out)
		}
		if st, _, errs = run(t, c, Command{Argv: []string{"/no/such/program"}}); st.Code != 127 || errs == "" {
			t.Errorf("a missing program: %v %q", st, errs)
		}
		if st, _, _ = run(t, c, Command{Argv: []string{"sh", "-c", "kill -9 $$"}}); st != (Status{Code: 137, Signal: "KILL"}) {
			t.Errorf("killed: %v", st)
		}
	})
}

func TestExecSignals(t *testing.T) {
	everyWay(t, func(t *testing.T, c *ssh.Client) {
		signals := make(chan os.Signal, 1)
		ready, w := io.Pipe()
		go func() {
			ready.Read(make([]byte, 1))
			signals <- syscall.SIGUSR1
			io.Copy(io.Discard, ready)
		}()
		st, err := Exec(t.Context(), c, Command{
			Argv:   []string{"sh", "-c", "trap 'exit 3' USR1; echo; while :; do sleep 0.01; done"},
			Stdout: w, Signals: signals,
		})
		if st.Code != 3 || err != nil {
			t.Errorf("got %v, %v", st, err)
		}
	})
}

func TestExecEndsWithItsContext(t *testing.T) {
	everyWay(t, func(t *testing.T, c *ssh.Client) {
		for _, script := range []string{"echo; exec sleep 60", "trap '' TERM; echo; while :; do sleep 0.01; done"} {
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			r, w := io.Pipe()
			go func() { r.Read(make([]byte, 1)); cancel(cause); io.Copy(io.Discard, r) }()
			begin := time.Now()
			st, err := Exec(ctx, c, Command{Argv: []string{"sh", "-c", script}, Stdout: w, Grace: 100 * time.Millisecond})
			if !errors.Is(err, cause) || st.Signal == "" {
				t.Errorf("%s: %v, %v", script, st, err)
			}
			if d := time.Since(begin); d > 50*time.Second {
				t.Errorf("%s: took %v", script, d)
			}
		}
	})
}

// Where the server sends no signal, nobody waits for what it cannot do.
func TestExecOfServerWithoutSignals(t *testing.T) {
	s := startServer(t, true)
	s.deaf = true
	for name, c := range map[string]*ssh.Client{"direct": s.dial(t), "relay": dialRelay(t, startRelay(t, s, fixed(s.dial(t))), s.login())} {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		r, w := io.Pipe()
		go func() { r.Read(make([]byte, 1)); cancel(cause); io.Copy(io.Discard, r) }()
		if _, err := Exec(ctx, c, Command{Argv: []string{"sh", "-c", "echo; exec sleep 600"}, Stdout: w, Grace: 24 * time.Hour}); !errors.Is(err, cause) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExecFlood(t *testing.T) {
	size := counter(100 << 20)
	if testing.Short() {
		size = 10 << 20
	}
	everyWay(t, func(t *testing.T, c *ssh.Client) {
		var n counter
		st, err := Exec(t.Context(), c, Command{Argv: []string{"sh", "-c", fmt.Sprintf("head -c %d /dev/zero; exit 9", size)}, Stdout: &n})
		if err != nil || st.Code != 9 || n != size {
			t.Errorf("%v, %v, %d bytes", st, err, n)
		}
	})
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func TestExecBackpressure(t *testing.T) {
	everyWay(t, func(t *testing.T, c *ssh.Client) {
		full := errors.New("full")
		_, err := Exec(t.Context(), c, Command{Argv: []string{"yes"}, Stdout: failing{full}})
		if !errors.Is(err, full) {
			t.Errorf("got %v", err)
		}
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestExecDistinguishesLossFromExit(t *testing.T) {
	s := startServer(t, false)
	c := s.dial(t)
	r, w := io.Pipe()
	go func() { r.Read(make([]byte, 1)); s.cut() }()
	_, err := Exec(t.Context(), c, Command{Argv: []string{"sh", "-c", "echo; sleep 60"}, Stdout: w})
	if agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("got %v", err)
	}
}

func TestExecPTY(t *testing.T) {
	s := startServer(t, false)
	c := dialRelay(t, startRelay(t, s, fixed(s.dial(t))), s.login())
	resize := make(chan Size, 1)
	resize <- Size{100, 30}
	run(t, c, Command{Argv: []string{"sleep", "0.2"}, TTY: &PTY{Size: Size{80, 24}, Resize: resize}})
	for _, want := range []string{"pty-req", "window-change", "argv@agentbox", "user@agentbox=box"} {
		if !s.hasRequest(want) {
			t.Errorf("the server did not see %s", want)
		}
	}
}

func TestParsePtyRequest(t *testing.T) {
	var m struct {
		Term       string
		W, H, X, Y uint32
		Modes      string
	}
	if err := ssh.Unmarshal(ptyRequest(&PTY{Size: Size{80, 24}}), &m); err != nil {
		t.Fatal(err)
	}
	if m.Term != "xterm" || m.W != 80 || m.H != 24 || m.Modes != "\x00" {
		t.Errorf("got %+v", m)
	}
}

func FuzzParseExit(f *testing.F) {
	f.Add("exit-status", []byte{0, 0, 0, 1})
	f.Add("exit-signal", []byte{0, 0, 0, 4, 'T', 'E', 'R', 'M', 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, kind string, payload []byte) {
		if st, ok := parseExit(&ssh.Request{Type: kind, Payload: payload}); ok && (st.Code < 0 || st.Code > 255) {
			t.Errorf("impossible code %d", st.Code)
		}
	})
}
