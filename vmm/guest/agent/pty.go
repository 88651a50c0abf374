//go:build linux

package agent

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// pty is a pseudo-terminal: the command has the slave, the agent the master. The session or the job
// closes the master.
type pty struct {
	master *os.File
	slave  int // blocks, as the command expects; -1 once connect handed it to the command
	term   string
}

// openPTY answers a pty-req, and refuses a second one.
func (s *session) openPTY(payload []byte) bool {
	var v struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if s.pty != nil || ssh.Unmarshal(payload, &v) != nil {
		return false
	}
	p, err := newPTY(v.Term, windowSize{v.Columns, v.Rows, v.Width, v.Height})
	if err != nil {
		s.conn.agent.Log.Warn("cannot open a terminal", "err", err)
		return false
	}
	p.setModes([]byte(v.Modes))
	s.pty = p
	return true
}

// windowSize is the payload of window-change, in characters and, where the client knows it, pixels.
type windowSize struct{ Columns, Rows, Width, Height uint32 }

// newPTY opens a new terminal of this size. The caller closes it.
func newPTY(term string, size windowSize) (*pty, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	p := &pty{master: master, term: term}
	err = control(master, func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		if err == nil {
			p.slave, err = syscall.Open(fmt.Sprintf("/dev/pts/%d", number), syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
		}
		return err
	})
	if err != nil {
		master.Close()
		return nil, err
	}
	if err := p.resize(size); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// own makes a command's user the owner of its terminal, so that it can be opened by name.
func (p *pty) own(u User) {
	if os.Geteuid() == 0 {
		syscall.Fchown(p.slave, u.UID, -1) // after an error, only opening it by name fails
	}
}

// close closes the master, and the slave unless it was handed to a command. p may be nil.
func (p *pty) close() {
	if p == nil {
		return
	}
	p.master.Close()
	if p.slave >= 0 {
		syscall.Close(p.slave)
		p.slave = -1
	}
}

func (p *pty) resize(s windowSize) error {
	size := unix.Winsize{Col: uint16(s.Columns), Row: uint16(s.Rows), Xpixel: uint16(s.Width), Ypixel: uint16(s.Height)}
	return control(p.master, func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &size) })
}

// change answers a window-change. p may be nil.
func (p *pty) change(payload []byte) bool {
	var size windowSize
	return p != nil && ssh.Unmarshal(payload, &size) == nil && p.resize(size) == nil
}

// control runs do on the file's descriptor. os.File.Fd would make the file blocking, and a blocking
// read cannot be ended.
func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = do(int(fd)) }); err != nil {
		return err
	}
	return result
}

// setModes applies the terminal modes of RFC 4254 section 8 that Linux has, and skips others.
// Errors are dropped: a terminal with other modes is still a terminal.
func (p *pty) setModes(modes []byte) {
	t, err := unix.IoctlGetTermios(p.slave, unix.TCGETS)
	if err != nil {
		return
	}
	for len(modes) >= 5 && modes[0] > 0 && modes[0] < 160 {
		applyMode(t, modes[0], binary.BigEndian.Uint32(modes[1:]))
		modes = modes[5:]
	}
	unix.IoctlSetTermios(p.slave, unix.TCSETS, t)
}

// applyMode changes t as one terminal mode of RFC 4254 says; modes that Linux lacks change nothing.
func applyMode(t *unix.Termios, op byte, value uint32) {
	if cc, ok := modeChars[op]; ok {
		if value == modeOff {
			value = posixVDisable
		}
		t.Cc[cc] = byte(value)
		return
	}
	m, ok := modeFlags[op]
	if !ok {
		return
	}
	field := m.field(t)
	if *field &^= m.bit; value != 0 {
		*field |= m.bit
	}
}

// A control character that is switched off, in SSH (RFC 4254, 8) and in Linux (_POSIX_VDISABLE).
const (
	modeOff       = 255
	posixVDisable = 0
)

// modeChars are the modes that set a control character, by their number in RFC 4254.
var modeChars = map[byte]int{
	1: unix.VINTR, 2: unix.VQUIT, 3: unix.VERASE, 4: unix.VKILL, 5: unix.VEOF, 6: unix.VEOL, 7: unix.VEOL2, 8: unix.VSTART,
	9: unix.VSTOP, 10: unix.VSUSP, 12: unix.VREPRINT, 13: unix.VWERASE, 14: unix.VLNEXT, 18: unix.VDISCARD,
}

type modeFlag struct {
	field func(*unix.Termios) *uint32
	bit   uint32
}

func iflag(t *unix.Termios) *uint32 { return &t.Iflag }
func lflag(t *unix.Termios) *uint32 { return &t.Lflag }
func oflag(t *unix.Termios) *uint32 { return &t.Oflag }

// modeFlags are the modes that switch a flag on or off, by their number in RFC 4254.
var modeFlags = map[byte]modeFlag{
	30: {iflag, unix.IGNPAR}, 31: {iflag, unix.PARMRK}, 32: {iflag, unix.INPCK}, 33: {iflag, unix.ISTRIP},
	34: {iflag, unix.INLCR}, 35: {iflag, unix.IGNCR}, 36: {iflag, unix.ICRNL}, 37: {iflag, unix.IUCLC},
	38: {iflag, unix.IXON}, 39: {iflag, unix.IXANY}, 40: {iflag, unix.IXOFF}, 41: {iflag, unix.IMAXBEL}, 42: {iflag, unix.IUTF8},
	50: {lflag, unix.ISIG}, 51: {lflag, unix.ICANON}, 52: {lflag, unix.XCASE}, 53: {lflag, unix.ECHO}, 54: {lflag, unix.ECHOE},
	55: {lflag, unix.ECHOK}, 56: {lflag, unix.ECHONL}, 57: {lflag, unix.NOFLSH}, 58: {lflag, unix.TOSTOP},
	59: {lflag, unix.IEXTEN}, 60: {lflag, unix.ECHOCTL}, 61: {lflag, unix.ECHOKE}, 62: {lflag, unix.PENDIN},
	70: {oflag, unix.OPOST}, 71: {oflag, unix.OLCUC}, 72: {oflag, unix.ONLCR}, 73: {oflag, unix.OCRNL},
	74: {oflag, unix.ONOCR}, 75: {oflag, unix.ONLRET},
}
