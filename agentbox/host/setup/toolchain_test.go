package setup

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/toolchain"
)

// boxThatSays is a box in which every command prints the same.
func boxThatSays(t *testing.T, text []byte) Box {
	t.Helper()
	dir := t.TempDir()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	at := environment.Address{Name: "box", Socket: filepath.Join(dir, "s"), Key: filepath.Join(dir, "key"), KnownHosts: filepath.Join(dir, "hosts")}
	for name, content := range map[string][]byte{at.Key: pem.EncodeToMemory(block), at.KnownHosts: []byte(knownhosts.Line([]string{"box"}, signer.PublicKey()))} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", at.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	config := &ssh.ServerConfig{NoClientAuth: true, PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	config.AddHostKey(signer)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serveText(conn, config, text)
		}
	}()
	return Box{Dir: dir, Address: at}
}

// serveText serves one client.
func serveText(conn net.Conn, config *ssh.ServerConfig, text []byte) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for nch := range channels {
		ch, requests, err := nch.Accept()
		if err != nil {
			return
		}
		go func() {
			for req := range requests {
				_ = req.Reply(true, nil)
				if req.Type == "signal" {
					continue
				}
				go func() {
					if _, err := ch.Write(text); err == nil {
						_, _ = ch.SendRequest("exit-status", false, []byte{0, 0, 0, 0})
					}
					_ = ch.Close()
				}()
			}
		}()
	}
}

// What the npm registry says of a package is read up to the bound that toolchain has for it.
func TestAnswersAreReadUpToTheirBound(t *testing.T) {
	s := New(Config{})
	for _, size := range []int{0, 100, 6 << 20, toolchain.MaxAnswer} {
		b := boxThatSays(t, bytes.Repeat([]byte("x"), size))
		got, err := s.query(t.Context(), b, toolchain.MaxAnswer, toolchain.AskRegistry("npm"))
		if err != nil {
			t.Errorf("%d bytes: %v", size, err)
			continue
		}
		if text, err := io.ReadAll(got); err != nil || len(text) != size {
			t.Errorf("%d bytes of %d: %v", len(text), size, err)
		}
	}
	b := boxThatSays(t, make([]byte, toolchain.MaxAnswer+1))
	if _, err := s.query(t.Context(), b, toolchain.MaxAnswer, toolchain.AskRegistry("npm")); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("more than is read: %v", err)
	}
}
