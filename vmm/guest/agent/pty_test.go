//go:build linux

package agent

import (
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// A client whose terminal has a character switched off says so with 255 (RFC 4254, 8): the byte 255
// must not become that character.
func TestDisabledControlCharacter(t *testing.T) {
	p, err := newPTY("", windowSize{})
	if err != nil {
		t.Skip("no terminal here:", err)
	}
	defer p.close()
	var modes []byte
	for op, value := range map[byte]uint32{1: 3, 6: 255} { // VINTR is ^C, VEOL is off
		modes = binary.BigEndian.AppendUint32(append(modes, op), value)
	}
	p.setModes(append(modes, 0))
	got, err := unix.IoctlGetTermios(p.slave, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if got.Cc[unix.VINTR] != 3 || got.Cc[unix.VEOL] != 0 {
		t.Errorf("VINTR is %d, VEOL %d", got.Cc[unix.VINTR], got.Cc[unix.VEOL])
	}
}

// The descriptor of a terminal is the command's as soon as it was handed over: its number may be
// another file's by the time that the session ends.
func TestRefusedCommandClosesTerminalOnce(t *testing.T) {
	f := start(t)
	s := &session{conn: &connection{agent: f.agent, life: newLife(nil)}, ch: discardChannel{}, env: map[string]string{}}
	if !s.openPTY(ssh.Marshal(struct {
		Term       string
		W, H, X, Y uint32
		Modes      string
	}{"xterm", 80, 24, 0, 0, ""})) {
		t.Skip("no terminal here")
	}
	requests := make(chan *ssh.Request)
	served := make(chan struct{})
	go func() {
		s.serve(requests)
		close(served)
	}()
	requests <- &ssh.Request{Type: protocol.Argv, Payload: []byte(`{"argv":["no-such-program"]}`)}
	requests <- &ssh.Request{Type: "signal"} // is answered after the command was refused
	requests <- &ssh.Request{Type: "signal"}
	var others []int
	for range 64 {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, fd)
	}
	close(requests)
	<-served
	for _, fd := range others {
		if err := unix.Close(fd); err != nil {
			t.Errorf("the session closed descriptor %d, which is not its own: %v", fd, err)
		}
	}
}
