//go:build linux

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
)

func TestExecOutputsAndStatus(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	s := f.session(c)
	var out, errs bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader("input"), &out, &errs
	err := s.Run("cat; echo oops >&2; exit 7")
	var exit *ssh.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 7 {
		t.Errorf("err %v", err)
	}
	if out.String() != "input" || errs.String() != "oops\n" {
		t.Errorf("stdout %q stderr %q", out.String(), errs.String())
	}
}

func TestExitSignal(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	err := f.session(c).Run("kill -TERM $$")
	var exit *ssh.ExitError
	if !errors.As(err, &exit) || exit.Signal() != "TERM" {
		t.Errorf("err %v", err)
	}
}

func TestSignalProcessGroup(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	s := f.session(c)
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("(echo ready; exec sleep 100); echo not reached"); err != nil {
		t.Fatal(err)
	}
	io.ReadFull(out, make([]byte, 6))
	if err := s.Signal(ssh.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) {
		t.Errorf("err %v", err)
	}
}

// argv runs a command without a shell and returns its output and exit status.
func (f *fixture) argv(c *guest.Client, r protocol.ArgvRequest) (string, int) {
	f.t.Helper()
	ch, requests, err := c.SSH().OpenChannel("session", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	defer ch.Close()
	payload, _ := json.Marshal(r)
	if ok, err := ch.SendRequest(protocol.Argv, true, payload); !ok || err != nil {
		f.t.Fatalf("argv request: %v %v", ok, err)
	}
	var out, errs bytes.Buffer
	done := make(chan struct{})
	go func() { io.Copy(&errs, ch.Stderr()); close(done) }()
	io.Copy(&out, ch)
	<-done
	status := -1
	for req := range requests {
		var v struct{ Status uint32 }
		if req.Type == "exit-status" && ssh.Unmarshal(req.Payload, &v) == nil {
			status = int(v.Status)
		}
	}
	return out.String() + errs.String(), status
}

func TestArgvRequest(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	dir := t.TempDir()
	script := filepath.Join(dir, "plain")
	if err := os.WriteFile(script, []byte("not a program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		request protocol.ArgvRequest
		out     string
		status  int
	}{
		{protocol.ArgvRequest{Argv: []string{"printf", "%s|", "a b", "$HOME", "'", ""}}, "a b|$HOME|'||", 0},
		{protocol.ArgvRequest{Argv: []string{"pwd"}, Dir: dir}, dir + "\n", 0},
		{protocol.ArgvRequest{Argv: []string{"printenv", "X"}, Env: map[string]string{"X": "y"}}, "y\n", 0},
		{protocol.ArgvRequest{Argv: []string{"no-such-program"}}, "agentbox: no-such-program: not found\n", 127},
		{protocol.ArgvRequest{Argv: []string{"/no/such/program"}}, "agentbox: /no/such/program: not found\n", 127},
		{protocol.ArgvRequest{Argv: []string{script}}, "agentbox: " + script + ": permission denied\n", 126},
		{protocol.ArgvRequest{Argv: []string{"plain"}, Env: map[string]string{"PATH": dir}}, "agentbox: plain: permission denied\n", 126},
		{protocol.ArgvRequest{Argv: []string{"true"}, Dir: "/no/such"}, "agentbox: cannot run in /no/such: there is no such directory in the box; --workdir chooses another\n", 126},
		{protocol.ArgvRequest{Argv: []string{"true"}, Dir: "/workspace/no/such"}, "agentbox: cannot run in /workspace/no/such: the workspace of the box has no such directory; --workdir chooses another, agentbox cp brings it\n", 126},
		{protocol.ArgvRequest{Argv: []string{"false"}}, "", 1},
	} {
		out, status := f.argv(c, test.request)
		if out != test.out || status != test.status {
			t.Errorf("%+v: %q, %d, want %q, %d", test.request, out, status, test.out, test.status)
		}
	}
}

func TestFloodRespectsWindow(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	s := f.session(c)
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	const size = 30 << 20
	if err := s.Start("head -c 31457280 /dev/zero"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // longer than the grace after the end, were it over
	n, err := io.Copy(io.Discard, out)
	if n != size || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}

func TestLeftoverProcessDoesNotHoldSession(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	dir := t.TempDir()
	began := time.Now()
	if got := f.output(c, "(while ! [ -e "+dir+"/stop ]; do echo noise; sleep 0.02; done; touch "+dir+"/ended) & echo started"); !strings.HasPrefix(got, "started\n") && !strings.Contains(got, "noise") {
		t.Errorf("output %q", got)
	}
	if time.Since(began) > time.Minute {
		t.Errorf("it took %v", time.Since(began))
	}
	f.output(c, "touch "+dir+"/stop")
	waitFor(t, func() bool { _, err := os.Stat(dir + "/ended"); return err == nil })
}

func TestClosedChannelHangsUp(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	for _, trap := range []string{"", "trap '' HUP; "} {
		s := f.session(c)
		out, err := s.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(trap + "echo $$; while :; do sleep 0.05; done"); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 32)
		n, err := out.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		pid := strings.TrimSpace(string(b[:n]))
		s.Close()
		waitFor(t, func() bool { _, err := os.Stat("/proc/" + pid); return err != nil })
	}
}

// torn sends what is written first in two pieces, the second a while later.
type torn struct {
	net.Conn
	at int
}

func (t *torn) Write(b []byte) (int, error) {
	at := min(t.at, len(b))
	t.at = 0
	n, err := t.Conn.Write(b[:at])
	if err != nil || at == len(b) {
		return n, err
	}
	if at > 0 {
		time.Sleep(100 * time.Millisecond) // for SSH to read it
	}
	more, err := t.Conn.Write(b[at:])
	return n + more, err
}

func TestCommandsSurviveSplitHello(t *testing.T) {
	f := start(t)
	c := f.connect()
	for _, at := range []int{1, 3, 4, 10, len(protocol.Magic), len(protocol.Magic) + 10} {
		s := f.session(c)
		out, err := s.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start("echo $$; while :; do sleep 0.05; done"); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 32)
		n, err := out.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		f.stream = &torn{f.stream, at}
		c = f.connect()
		if _, err := os.Stat("/proc/" + strings.TrimSpace(string(b[:n]))); err != nil {
			t.Errorf("torn after %d bytes: the command was ended", at)
		}
	}
	c.Close()
}

func TestTerminal(t *testing.T) {
	if _, err := os.Stat("/dev/ptmx"); err != nil {
		t.Skip("this host has no pseudo-terminals")
	}
	f := start(t)
	c := f.connect()
	defer c.Close()
	s := f.session(c)
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RequestPty("linux", 24, 80, ssh.TerminalModes{ssh.ECHO: 0}); err != nil {
		t.Fatal(err)
	}
	// Nothing is forked behind what the test waits for: a shell that forks keeps an interrupt until
	// the child ends.
	if err := s.Start("test -t 0 && test -t 2 && echo $TERM; stty size; read x; stty size; stty -a | tr ' ' '\\n' | grep -x -- -echo; read y"); err != nil {
		t.Fatal(err)
	}
	resizeAndWait(t, s.SendRequest, 132, 50)
	io.WriteString(in, "\n")
	got := readUntil(t, out, "-echo")
	io.WriteString(in, "\x03")
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || exit.Signal() != "INT" && exit.ExitStatus() != 130 {
		t.Errorf("err %v", err)
	}
	got = strings.ReplaceAll(got, "\r\n", "\n")
	if !strings.HasPrefix(got, "linux\n") || !strings.Contains(got, "50 132\n-echo") {
		t.Errorf("output %q", got)
	}
}

// readUntil reads until what was read ends with a line that is want.
func readUntil(t *testing.T, r io.Reader, want string) string {
	t.Helper()
	var got []byte
	for b := make([]byte, 1); !strings.HasSuffix(strings.TrimRight(string(got), "\r"), "\n"+want); {
		n, err := r.Read(b)
		got = append(got, b[:n]...)
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
	}
	return string(got)
}

func TestLoginShell(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	s := f.session(c)
	var out bytes.Buffer
	s.Stdin, s.Stdout = strings.NewReader("echo $0; exit 3\n"), &out
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 3 || out.String() != "-sh\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestSFTP(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	files, err := sftp.NewClient(c.SSH())
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	path := filepath.Join(t.TempDir(), "file")
	w, err := files.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("0123456789"), 100000)
	if _, err := w.Write(want); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if dir, err := files.Getwd(); err != nil || dir != f.agent.User.Home {
		t.Errorf("it starts in %s, %v", dir, err)
	}
}

// What is opened for appending grows at its end, also where others append to it meanwhile.
func TestSFTPAppends(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	files, err := sftp.NewClient(c.SSH())
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("first,"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := files.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for range 2 {
		if _, err := w.Write([]byte("over the wire,")); err != nil {
			t.Fatal(err)
		}
		if _, err := other.WriteString("here,"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("late")); err == nil {
		t.Error("a file that was closed is written")
	}
	if got, err := os.ReadFile(log); err != nil || string(got) != "first,over the wire,here,over the wire,here," {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := files.OpenFile(log+"/none", os.O_WRONLY|os.O_APPEND); err == nil {
		t.Error("what is no file is opened")
	}
}

func TestForwardIntoGuest(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err == nil {
			b, _ := io.ReadAll(conn)
			conn.Write(append([]byte("got "), b...))
			conn.Close()
		}
	}()
	conn, err := c.SSH().Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "hello")
	conn.(interface{ CloseWrite() error }).CloseWrite()
	if b, err := io.ReadAll(conn); string(b) != "got hello" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := c.SSH().Dial("tcp", "127.0.0.1:1"); err == nil {
		t.Error("nobody listens there")
	}
}

func TestForwardOutOfGuest(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	l, err := c.SSH().Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		conn, err := l.Accept()
		if err == nil {
			io.WriteString(conn, "from the client")
			conn.Close()
		}
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if b, err := io.ReadAll(conn); string(b) != "from the client" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	l.Close()
	waitFor(t, func() bool {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

func TestUnknownChannelsAndRequests(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	if _, _, err := c.SSH().OpenChannel("x11", nil); err == nil {
		t.Error("x11 was accepted")
	}
	s := f.session(c)
	for _, name := range []string{"x11-req", "auth-agent-req@openssh.com"} {
		if ok, err := s.SendRequest(name, true, nil); ok || err != nil {
			t.Errorf("%s: %v %v", name, ok, err)
		}
	}
	if ok, _, err := c.SSH().SendRequest("nonsense@agentbox", true, nil); ok || err != nil {
		t.Errorf("nonsense: %v %v", ok, err)
	}
}

func TestCommandsAsEveryUser(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	for _, test := range []struct{ as, want string }{
		{"", "tester\n"}, {"agentbox", "tester\n"}, {"tester", "tester\n"}, {"postgres", "postgres\n"}, {"root", "root\n"},
		{"nobody-here", "agentbox: the box has no user \"nobody-here\"\n"},
	} {
		s := f.session(c)
		if _, err := s.SendRequest(protocol.UserRequest, false, ssh.Marshal(struct{ Name string }{test.as})); err != nil {
			t.Fatal(err)
		}
		out, err := s.CombinedOutput("echo $USER")
		if string(out) != test.want {
			t.Errorf("as %q: %q, %v", test.as, out, err)
		}
		var exit *ssh.ExitError
		if test.as == "nobody-here" && (!errors.As(err, &exit) || exit.ExitStatus() != 126) {
			t.Errorf("as nobody: %v", err)
		}
	}
}

// resizeAndWait changes a terminal's size before anything that is typed next: requests and input of
// a channel are read apart, so only the answer says that the one came before the other.
func resizeAndWait(t *testing.T, request func(name string, wantReply bool, payload []byte) (bool, error), columns, rows uint32) {
	t.Helper()
	ok, err := request("window-change", true, ssh.Marshal(struct{ W, H, X, Y uint32 }{columns, rows, 0, 0}))
	if !ok || err != nil {
		t.Fatalf("resize to %dx%d: %t, %v", columns, rows, ok, err)
	}
}

// What a command leaves behind may write faster than the client reads, and without end: the end of
// the command is told all the same.
func TestLeftoverFloodDoesNotDelayExit(t *testing.T) {
	commandEnd, agentEnd, err := newPipe(false)
	if err != nil {
		t.Fatal(err)
	}
	flood := os.NewFile(uintptr(commandEnd), "flood")
	go func() {
		for b := make([]byte, 64<<10); ; {
			if _, err := flood.Write(b); err != nil {
				return
			}
		}
	}()
	defer flood.Close()
	defer agentEnd.Close()
	waitFor(t, func() bool { return pending(agentEnd) > 0 })
	agentEnd.SetReadDeadline(time.Unix(1, 0)) // the command has ended
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		drain(agentEnd, func([]byte) error {
			for pending(agentEnd) == 0 {
				runtime.Gosched()
			}
			agentEnd.SetReadDeadline(time.Unix(1, 0)) // a slow client: the grace is over each time
			return nil
		})
	}()
	select {
	case <-drained:
	case <-time.After(5 * time.Minute):
		t.Fatal("a minute later it is still read for the client")
	}
}
