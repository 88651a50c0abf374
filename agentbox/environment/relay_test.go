package environment

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
)

// fixed is the Backend of a connection that is never replaced.
func fixed(client *ssh.Client) Backend {
	return func(context.Context) (*ssh.Client, error) { return client, nil }
}

func TestRelayManyChannels(t *testing.T) {
	s := startServer(t, false)
	path := startRelay(t, s, fixed(s.dial(t)))
	clients := []*ssh.Client{dialRelay(t, path, s.login()), dialRelay(t, path, s.login())}
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			var out bytes.Buffer
			in := strings.Repeat(fmt.Sprint(i, " "), 10000)
			st, err := Exec(t.Context(), clients[i%2], Command{Argv: []string{"sh", "-c", "cat; exit 4"}, Stdin: strings.NewReader(in), Stdout: &out})
			if err != nil || st.Code != 4 || out.String() != in {
				t.Errorf("%d: %v, %v, %d bytes of %d", i, st, err, out.Len(), len(in))
			}
		})
	}
	all.Wait()
}

// A client that does not read must not hold up the others.
func TestRelayBackpressure(t *testing.T) {
	s := startServer(t, false)
	path := startRelay(t, s, fixed(s.dial(t)))
	slow, quick := dialRelay(t, path, s.login()), dialRelay(t, path, s.login())
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		Exec(ctx, slow, Command{Argv: []string{"cat", "/dev/zero"}, Stdout: w, Grace: time.Millisecond})
		close(done)
	}()
	io.ReadFull(r, make([]byte, 1<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		run(t, quick, Command{Argv: []string{"true"}})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+64<<20 {
		t.Errorf("the heap grew from %d to %d", before.HeapAlloc, after.HeapAlloc)
	}
	cancel()
	r.Close()
	<-done
}

func TestRelayReportsLostBackend(t *testing.T) {
	s := startServer(t, false)
	path := startRelay(t, s, fixed(s.dial(t)))
	c := dialRelay(t, path, s.login())
	r, w := io.Pipe()
	go func() { r.Read(make([]byte, 1)); s.cut(); io.Copy(io.Discard, r) }()
	var errs bytes.Buffer
	_, err := Exec(t.Context(), c, Command{Argv: []string{"sh", "-c", "echo; sleep 60"}, Stdout: w, Stderr: &errs})
	if agentbox.CodeOf(err) != agentbox.Unavailable || !strings.Contains(errs.String(), "agentbox: the box closed the session") {
		t.Errorf("got %v, and %q", err, errs.String())
	}
	_, err = Exec(t.Context(), c, Command{Argv: []string{"true"}})
	if agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("after that: %v", err)
	}
}

func TestRelayWithoutBackend(t *testing.T) {
	s := startServer(t, false)
	path := startRelay(t, s, func(context.Context) (*ssh.Client, error) { return nil, errors.New("its machine died") })
	_, err := Exec(t.Context(), dialRelay(t, path, s.login()), Command{Argv: []string{"true"}})
	e := agentbox.AsError(err)
	if e == nil || e.Code != agentbox.Unavailable || e.Message != "the connection to the box was lost: its machine died" || e.Hint == "" {
		t.Errorf("got %#v", e)
	}
}

func TestRelayUsesNewBackend(t *testing.T) {
	s := startServer(t, false)
	path := startRelay(t, s, func(context.Context) (*ssh.Client, error) {
		conn, err := net.Dial("unix", s.addr)
		if err != nil {
			return nil, err
		}
		return NewClient(context.Background(), conn, s.login())
	})
	c := dialRelay(t, path, s.login())
	for range 3 {
		run(t, c, Command{Argv: []string{"true"}})
		s.cut()
	}
	refuse := startRelay(t, s, func(context.Context) (*ssh.Client, error) { return nil, errors.New("the box is paused") })
	_, err := Exec(t.Context(), dialRelay(t, refuse, s.login()), Command{Argv: []string{"true"}})
	if err == nil || !strings.Contains(err.Error(), "the box is paused") {
		t.Errorf("got %v", err)
	}
}

// TestRelayLeavesEndedConnection: a connection that ended and that the backend did not miss yet costs
// a client nothing.
func TestRelayLeavesEndedConnection(t *testing.T) {
	s := startServer(t, false)
	dead := s.dial(t)
	s.cut()
	_ = dead.Wait()
	var asked atomic.Int32
	path := startRelay(t, s, func(context.Context) (*ssh.Client, error) {
		if asked.Add(1)%2 == 1 {
			return dead, nil
		}
		return s.dial(t), nil
	})
	c := dialRelay(t, path, s.login())
	for range 3 {
		run(t, c, Command{Argv: []string{"true"}})
	}
}

func TestRelayRefuses(t *testing.T) {
	s := startServer(t, false)
	path := startRelay(t, s, fixed(s.dial(t)))
	conn, _ := net.Dial("unix", path)
	if _, err := NewClient(t.Context(), conn, Login{User: "box", Key: newSigner(t), HostKey: s.hostKey.PublicKey()}); err == nil {
		t.Error("a stranger's key was admitted")
	}
	conn, _ = net.Dial("unix", path)
	if _, err := NewClient(t.Context(), conn, Login{User: "box", Key: s.key, HostKey: newSigner(t).PublicKey()}); err == nil {
		t.Error("a stranger's host key was accepted")
	}
	c := dialRelay(t, path, s.login())
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); !ok || err != nil {
		t.Errorf("keepalive: %v %v", ok, err)
	}
	for _, name := range []string{"tcpip-forward", "hostkeys-prove-00@openssh.com", "attach@agentbox"} {
		if ok, _, _ := c.SendRequest(name, true, nil); ok {
			t.Errorf("%s was granted", name)
		}
	}
	ch, reqs, err := c.OpenChannel("session", nil)
	if err != nil {
		t.Fatal(err)
	}
	go ssh.DiscardRequests(reqs)
	for _, name := range []string{"x11-req", "auth-agent-req@openssh.com"} {
		if ok, _ := ch.SendRequest(name, true, nil); ok {
			t.Errorf("%s was granted", name)
		}
	}
	ch.Close()
}

// A box gets nothing of the host over the connection that the host made to it, whoever controls
// the box.
func TestBoxCannotOpenChannels(t *testing.T) {
	s := startServer(t, false)
	c := dialRelay(t, startRelay(t, s, fixed(s.dial(t))), s.login())
	run(t, c, Command{Argv: []string{"true"}})
	s.mu.Lock()
	box := s.logins[0]
	s.mu.Unlock()
	where := ssh.Marshal(struct {
		Host     string
		Port     uint32
		FromHost string
		FromPort uint32
	}{"127.0.0.1", 22, "127.0.0.1", 1})
	for _, kind := range []string{
		"session", "direct-tcpip", "direct-streamlocal@openssh.com", "forwarded-tcpip", "forwarded-streamlocal@openssh.com", "x11", "auth-agent@openssh.com", "tun@openssh.com",
	} {
		if _, _, err := box.OpenChannel(kind, where); err == nil {
			t.Errorf("the box has opened a channel %s", kind)
		}
	}
	for _, name := range []string{"tcpip-forward", "streamlocal-forward@openssh.com", "attach@agentbox", "keepalive@openssh.com"} {
		if ok, _, err := box.SendRequest(name, true, where); ok || err != nil {
			t.Errorf("the box asks for %s: %v, %v", name, ok, err)
		}
	}
	run(t, c, Command{Argv: []string{"true"}})
}

// Nothing of a session may stay, whichever end leaves and whenever it does.
func TestRelayLeaksNothing(t *testing.T) {
	s := startServer(t, false)
	back := s.dial(t)
	path := startRelay(t, s, fixed(back))
	run(t, dialRelay(t, path, s.login()), Command{Argv: []string{"true"}})
	settle(t, func() bool { return s.sessions.Load() == 1 }) // the one opened ahead of need
	before := runtime.NumGoroutine()
	for i := range 20 {
		conn, _ := net.Dial("unix", path)
		c, err := NewClient(t.Context(), conn, s.login())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*5*time.Millisecond)
		go func() { <-ctx.Done(); c.Close() }()
		Exec(t.Context(), c, Command{Argv: []string{"sh", "-c", "cat /dev/zero"}, Stdin: strings.NewReader("x"), Stdout: io.Discard})
		cancel()
	}
	settle(t, func() bool { return s.sessions.Load() <= 1 && runtime.NumGoroutine() <= before+2 })
}

func settle(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("still running:\n%s", buf[:runtime.Stack(buf, true)])
		}
	}
}

func TestKeepAlive(t *testing.T) {
	s := startServer(t, false)
	c := s.dial(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := KeepAlive(ctx, c, KeepAliveOptions{Interval: time.Millisecond, Timeout: time.Minute}); err != nil {
		t.Errorf("a living server: %v", err)
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "mute.sock"))
	if err != nil {
		t.Fatal(err)
	}
	here, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	go muteServer(there, s)
	mute, err := NewClient(t.Context(), here, s.login())
	if err != nil {
		t.Fatal(err)
	}
	frozen := 3
	excused := func() bool { frozen--; return frozen > 0 }
	if err := KeepAlive(t.Context(), mute, KeepAliveOptions{Interval: time.Millisecond, Timeout: 50 * time.Millisecond, Suspended: excused}); !errors.Is(err, errUnresponsive) {
		t.Errorf("a mute server: %v", err)
	}
	if frozen > 0 {
		t.Errorf("given up while it was excused")
	}
	if mute.Wait() == nil {
		t.Error("the client was left open")
	}
	there.Close()
}

// muteServer logs a client in and never says anything again.
func muteServer(conn net.Conn, s *server) {
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	config.AddHostKey(s.hostKey)
	_, chans, reqs, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	for range chans {
	}
}

func TestForward(t *testing.T) {
	s := startServer(t, false)
	c := dialRelay(t, startRelay(t, s, fixed(s.dial(t))), s.login())
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { // answers only after the end of the question: half closes have to arrive
				data, _ := io.ReadAll(conn)
				conn.Write(data)
				conn.Close()
			}()
		}
	}()
	f, err := Forward(t.Context(), fixed(c), "127.0.0.1:0", echo.Addr().String(), ForwardHooks{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			conn, err := net.Dial("tcp", f.Addr())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			in := bytes.Repeat([]byte{byte(i)}, 100_000)
			go func() { conn.Write(in); conn.(*net.TCPConn).CloseWrite() }()
			if out, err := io.ReadAll(conn); err != nil || !bytes.Equal(in, out) {
				t.Errorf("%d: %v, %d bytes", i, err, len(out))
			}
		})
	}
	all.Wait()
	_, err = Forward(t.Context(), fixed(c), f.Addr(), "127.0.0.1:80", ForwardHooks{})
	if e := agentbox.AsError(err); e == nil || e.Code != agentbox.Exists || e.Hint == "" || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a taken port: %v", err)
	}
	f.Close()
	if _, err := net.Dial("tcp", f.Addr()); err == nil {
		t.Error("it listens after Close")
	}
}

func TestForwardToNothing(t *testing.T) {
	s := startServer(t, false)
	c := s.dial(t)
	f, err := Forward(t.Context(), fixed(c), "127.0.0.1:0", "127.0.0.1:1", ForwardHooks{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if conn, err := net.Dial("tcp", f.Addr()); err == nil { // else the reset was as quick as the connection
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes of nothing", n)
		}
		conn.Close()
	}
	for _, addr := range []string{"", "nonsense", "host:0", "host:70000"} {
		if _, err := Forward(t.Context(), fixed(c), "127.0.0.1:0", addr, ForwardHooks{}); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

// stock prepares OpenSSH's programs to reach the relay, and gives the options that all of them
// take.
func stock(t *testing.T, program string) (s *server, config string) {
	t.Helper()
	for _, p := range []string{program, "ssh"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
	s = startServer(t, true)
	dir := t.TempDir()
	signer, key := newKeyFile(t, filepath.Join(dir, "key"))
	s.key = signer
	path := startRelay(t, s, fixed(s.dial(t)))
	hosts := filepath.Join(dir, "known_hosts")
	os.WriteFile(hosts, append([]byte("box "), ssh.MarshalAuthorizedKey(s.hostKey.PublicKey())...), 0o600)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config = filepath.Join(dir, "config")
	text := fmt.Sprintf("Host box\n User me\n HostKeyAlias box\n IdentityFile %s\n IdentitiesOnly yes\n UserKnownHostsFile %s\n StrictHostKeyChecking yes\n ProxyCommand env AGENTBOX_TEST_PROXY=%s %s\n",
		key, hosts, path, self)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s, config
}

func newKeyFile(t *testing.T, path string) (ssh.Signer, string) {
	raw, signer := newKeyPair(t)
	block, err := ssh.MarshalPrivateKey(raw, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return signer, path
}

// TestMain lets the test binary be its own ProxyCommand.
func TestMain(m *testing.M) {
	path := os.Getenv("AGENTBOX_TEST_PROXY")
	if path == "" {
		os.Exit(m.Run())
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() { io.Copy(conn, os.Stdin); conn.(*net.UnixConn).CloseWrite() }()
	io.Copy(os.Stdout, conn)
}

func TestStockSSH(t *testing.T) {
	s, config := stock(t, "ssh")
	cmd := exec.CommandContext(t.Context(), "ssh", "-F", config, "box", "cat; echo err >&2; exit 5")
	cmd.Stdin = strings.NewReader("hello")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState.ExitCode() != 5 || out.String() != "hello" || !strings.Contains(errs.String(), "err\n") {
		t.Errorf("%v, %q, %q", err, out.String(), errs.String())
	}
	if !s.hasRequest("user@agentbox=me") {
		t.Error("the login name did not reach the environment")
	}
	size := 100 << 20
	if testing.Short() {
		size = 10 << 20
	}
	big, err := exec.CommandContext(t.Context(), "ssh", "-F", config, "box", fmt.Sprintf("head -c %d /dev/zero", size)).Output()
	if err != nil || len(big) != size {
		t.Errorf("flood: %v, %d bytes", err, len(big))
	}
}

func TestStockSFTP(t *testing.T) {
	_, config := stock(t, "sftp")
	dir := t.TempDir()
	plant(t, dir+"/from")
	cmd := exec.CommandContext(t.Context(), "sftp", "-F", config, "-b", "-", "box")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("put -R -p %s/from/sub %s/box\nget -R -p %s/box %s/back\n", dir, dir, dir, dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(dir + "/back/dir/script.sh"); err != nil {
		t.Error(err)
	}
}

func TestStockRsync(t *testing.T) {
	_, config := stock(t, "rsync")
	from, box, back := t.TempDir(), t.TempDir(), t.TempDir()
	plant(t, from)
	for _, pair := range [][2]string{{from + "/", "box:" + box + "/"}, {"box:" + box + "/", back + "/"}} {
		if out, err := exec.CommandContext(t.Context(), "rsync", "-a", "-e", "ssh -F "+config, pair[0], pair[1]).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	sameTree(t, from, back)
}

func BenchmarkExec(b *testing.B) {
	s := startServer(b, false)
	direct := s.dial(b)
	for name, c := range map[string]*ssh.Client{"direct": direct, "relay": dialRelay(b, startRelay(b, s, fixed(direct)), s.login())} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				run(b, c, Command{Argv: []string{"true"}})
			}
		})
	}
}

func BenchmarkHandshake(b *testing.B) {
	s := startServer(b, false)
	path := startRelay(b, s, fixed(s.dial(b)))
	for b.Loop() {
		conn, err := net.Dial("unix", path)
		if err != nil {
			b.Fatal(err)
		}
		c, err := NewClient(b.Context(), conn, s.login())
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}

func BenchmarkStream(b *testing.B) {
	s := startServer(b, false)
	direct := s.dial(b)
	for name, c := range map[string]*ssh.Client{"direct": direct, "relay": dialRelay(b, startRelay(b, s, fixed(direct)), s.login())} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(64 << 20)
			for b.Loop() {
				if _, err := Exec(b.Context(), c, Command{Argv: []string{"head", "-c", "67108864", "/dev/zero"}, Stdout: io.Discard}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
