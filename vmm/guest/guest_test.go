package guest

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/vmm/guest/protocol"
)

// A guest may be broken or hostile: whatever it does, a call returns when its deadline has passed.
func TestConnectReturnsWhateverTheGuestDoes(t *testing.T) {
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
			keys, err := NewKeys()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err = Connect(ctx, host, keys.Hello("box"), keys)
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

func TestHelloIsNewEachTime(t *testing.T) {
	keys, err := NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	a, b := keys.Hello("box"), keys.Hello("box")
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
	if got := clean("a\nb\x1b[31m" + strings.Repeat("x", 1000)); strings.ContainsAny(got, "\n\x1b") || len(got) > 400 {
		t.Errorf("%q", got)
	}
}

func TestEmbeddedAgentIsAnELFOrTellsHowToBuildIt(t *testing.T) {
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
