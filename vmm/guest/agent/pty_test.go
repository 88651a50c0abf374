//go:build linux

package agent

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// A client whose terminal has a character switched off says so with 255 (RFC 4254, 8): the byte 255
// must not become that character.
func TestACharacterThatIsSwitchedOffIsNone(t *testing.T) {
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
