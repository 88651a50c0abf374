package setup

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/toolchain"
	"agentbox/agentbox/toolchain/resolve"
)

// boxWithOutput is a box in which every command prints the same.
func boxWithOutput(t *testing.T, text []byte) Box {
	t.Helper()
	return boxThatAnswers(t, func(string) ([]byte, exit) { return text, 0 })
}

// exit is the exit code of a command, or lost.
type exit int

// lost cuts the connection before the command has ended.
const lost exit = -1

// boxThatAnswers is a box in which answer says what a command, with its arguments somewhere in the
// request for it, prints and how it ends.
func boxThatAnswers(t *testing.T, answer func(request string) ([]byte, exit)) Box {
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
			go serveAnswers(conn, config, answer)
		}
	}()
	return Box{Dir: dir, Address: at}
}

// serveAnswers serves one client.
func serveAnswers(conn net.Conn, config *ssh.ServerConfig, answer func(string) ([]byte, exit)) {
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
					text, code := answer(string(req.Payload))
					_, err := ch.Write(text)
					if code == lost {
						_ = conn.Close()
						return
					}
					if err == nil {
						_, _ = ch.SendRequest("exit-status", false, []byte{0, 0, 0, byte(code)})
					}
					_ = ch.Close()
				}()
			}
		}()
	}
}

// What the npm registry says of a package is read up to the bound that toolchain has for it.
func TestAnswersAreBounded(t *testing.T) {
	s := New(Config{})
	for _, size := range []int{0, 100, 6 << 20, resolve.MaxAnswer} {
		b := boxWithOutput(t, bytes.Repeat([]byte("x"), size))
		got, err := s.query(t.Context(), b, resolve.MaxAnswer, resolve.AskRegistry("npm"))
		if err != nil {
			t.Errorf("%d bytes: %v", size, err)
			continue
		}
		if text, err := io.ReadAll(got); err != nil || len(text) != size {
			t.Errorf("%d bytes of %d: %v", len(text), size, err)
		}
	}
	b := boxWithOutput(t, make([]byte, resolve.MaxAnswer+1))
	if _, err := s.query(t.Context(), b, resolve.MaxAnswer, resolve.AskRegistry("npm")); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("more than is read: %v", err)
	}
}

// A package that the distribution does not have is one thing, a box that does not say is another:
// tools would silently be missing, or come from elsewhere.
func TestFailedQueryIsNoMissingPackage(t *testing.T) {
	s := New(Config{})
	needs := toolchain.Needs{{Tool: toolchain.Go}}
	for name, c := range map[string]struct {
		shown string
		code  exit
		fails bool
	}{
		"it has one":       {"Package: apt\nVersion: 2.6\n\nPackage: golang-go\nVersion: 2:1.19~1\n", 0, false},
		"it has none":      {"Package: apt\nVersion: 2.6\n", 0, false},
		"apt-cache fails":  {"", 100, true},
		"the box is gone":  {"", lost, true},
		"it was truncated": {"Package: golang-go\n", lost, true},
	} {
		b := boxThatAnswers(t, func(request string) ([]byte, exit) {
			if strings.Contains(request, "apt-cache") {
				return []byte(c.shown), c.code
			}
			return nil, 0
		})
		offer, err := s.candidates(t.Context(), b, needs)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if want := strings.Contains(c.shown, "golang-go") && !c.fails; (offer.Distribution["golang-go"] == "1.19") != want {
			t.Errorf("%s: %v", name, offer.Distribution)
		}
	}
}
