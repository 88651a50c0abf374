package guest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/vmm/guest/protocol"
)

// A guest may be broken or hostile: whatever it does, a call returns when its deadline has passed.
func TestConnectDeadline(t *testing.T) {
	for name, behave := range map[string]func(net.Conn){
		"silent":   func(c net.Conn) { io.Copy(io.Discard, c) },
		"babbling": func(c net.Conn) { go io.Copy(io.Discard, c); io.Copy(c, endless{}) },
		"deaf":     func(net.Conn) {},
		"torn": func(c net.Conn) {
			go io.Copy(io.Discard, c)
			io.Copy(c, strings.NewReader(protocol.Magic+`{"token":`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			host, guest := net.Pipe()
			defer host.Close()
			defer guest.Close()
			go behave(guest)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := Greet(ctx, machine{host}, NewHello("box"))
			if agentbox.CodeOf(err) != agentbox.Timeout || time.Since(began) > time.Minute {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "babble\x00\xff"[i%8]
	}
	return len(p), nil
}

// buffered is a stream of which something was read ahead.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// greeted is the guest's end of a life, by an agent that does what the host expects until it is
// logged in. seed is that of its host key; nil takes the one that the host gives it.
func greeted(stream net.Conn, seed []byte) (*ssh.ServerConn, error) {
	r := bufio.NewReader(stream)
	line, err := r.ReadBytes('{')
	if err == nil {
		line, err = r.ReadBytes('\n')
	}
	if err != nil {
		return nil, err
	}
	hello, err := protocol.ParseHello(append([]byte("{"), line...))
	if err != nil {
		return nil, err
	}
	ready, err := protocol.AppendLife(nil, protocol.Ready{Version: protocol.Version, Token: hello.Token})
	if err != nil {
		return nil, err
	}
	if _, err := stream.Write(ready); err != nil {
		return nil, err
	}
	if seed == nil {
		seed = hello.HostKey
	}
	raw, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), seed)
	if err != nil {
		return nil, err
	}
	key, err := ssh.NewSignerFromKey(raw)
	if err != nil {
		return nil, err
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(key)
	conn, _, requests, err := ssh.NewServerConn(buffered{stream, r}, config)
	if err == nil {
		go ssh.DiscardRequests(requests)
	}
	return conn, err
}

// streams are the two ends of a stream, for as long as the test.
func streams(t *testing.T) (host, guest net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if host, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	if guest, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guest.Close() })
	return host, guest
}

// Only what has read the Hello can prove it.
func TestWrongHostKeyIsRefused(t *testing.T) {
	host, stream := streams(t)
	login := make(chan error, 1)
	go func() {
		_, err := greeted(stream, bytes.Repeat([]byte{1}, 32))
		login <- err
	}()
	if _, err := Greet(t.Context(), machine{host}, NewHello("box")); err == nil || !strings.Contains(err.Error(), "host key mismatch") {
		t.Errorf("err %v", err)
	}
	host.Close()
	if err := <-login; err == nil {
		t.Error("it was logged in to")
	}
}

// Once it is logged in to, a guest that is hostile opens nothing towards the host.
func TestGuestCannotOpenChannels(t *testing.T) {
	host, stream := streams(t)
	logins := make(chan *ssh.ServerConn, 1)
	go func() {
		defer close(logins)
		if login, err := greeted(stream, nil); err == nil {
			logins <- login
		} else {
			t.Error(err)
		}
	}()
	c, err := Greet(t.Context(), machine{host}, NewHello("box"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	box := <-logins
	for _, kind := range []string{"session", "direct-tcpip", "direct-streamlocal@openssh.com", "forwarded-tcpip", "forwarded-streamlocal@openssh.com", "x11", "auth-agent@openssh.com"} {
		if _, _, err := box.OpenChannel(kind, nil); err == nil {
			t.Errorf("the guest has opened a channel %s", kind)
		}
	}
	for _, name := range []string{"tcpip-forward", "streamlocal-forward@openssh.com", protocol.Attach} {
		if ok, _, err := box.SendRequest(name, true, nil); ok || err != nil {
			t.Errorf("the guest asks for %s: %v, %v", name, ok, err)
		}
	}
}

// SSH would end the connection, and with it every session of the box.
func TestOversizedRequestKeepsConnection(t *testing.T) {
	host, stream := streams(t)
	go func() {
		if _, err := greeted(stream, nil); err != nil {
			t.Error(err)
		}
	}()
	c, err := Greet(t.Context(), machine{host}, NewHello("box"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for size, want := range map[int]agentbox.Code{300 << 10: agentbox.Invalid, 254 << 10: agentbox.Unavailable} {
		err := c.Attach(t.Context(), protocol.AttachRequest{Env: map[string]string{"LONG": strings.Repeat("a", size)}})
		if agentbox.CodeOf(err) != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	// This guest answers each request with a refusal, which a lost connection could not.
	if _, err := c.Stats(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the next request: %v", err)
	}
}

func TestHelloIsFresh(t *testing.T) {
	a, b := NewHello("box"), NewHello("box")
	if a.Token == b.Token || a.MachineID == b.MachineID || string(a.Entropy) == string(b.Entropy) {
		t.Error("two hellos are alike")
	}
	line, err := protocol.AppendLife(nil, a)
	if err != nil {
		t.Fatal(err)
	}
	line = line[len(protocol.Magic) : len(line)-1]
	if _, err := protocol.ParseHello(line); err != nil {
		t.Error(err)
	}
}

func TestCleanMakesOneLine(t *testing.T) {
	// U+009B begins an escape sequence by itself, U+202E turns the direction of writing.
	if got := clean("a\nb\x1b[31m\u009b31m\u202e" + strings.Repeat("x", 1000)); strings.ContainsAny(got, "\n\x1b\u009b\u202e") || len([]rune(got)) > 400 {
		t.Errorf("%q", got)
	}
}

func TestEmbeddedAgent(t *testing.T) {
	agent, err := Agent()
	if err != nil {
		if agentbox.AsError(err).Hint == "" {
			t.Errorf("%v has no hint", err)
		}
		return
	}
	if !strings.HasPrefix(string(agent[:4]), "\x7fELF") {
		t.Error("it is no ELF")
	}
}

// machine is one without processes.
type machine struct{ net.Conn }

func (m machine) Stream() net.Conn { return m.Conn }
func (machine) PIDs() []int        { return nil }
