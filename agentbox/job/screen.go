package job

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// screen is the end of a job's output, from which a client that comes later gets a screenful. It
// does not emulate a terminal: it replays output, which is enough for programs that repaint
// everything and for those that print lines.
type screen struct {
	tail  []byte
	modes Modes
}

// maxScreen is how many bytes of output are remembered: some screenfuls, even of a program that
// colours every character. tail may be half as long again.
const maxScreen = 64 << 10

// write appends output, keeps its end, and follows the modes that it sets.
func (s *screen) write(b []byte) {
	s.modes.Write(b)
	s.tail = append(s.tail, b...)
	if over := len(s.tail) - maxScreen; over > maxScreen/2 { // not for each byte
		s.tail = append([]byte(nil), s.tail[over:]...)
	}
}

// clearSequences are what programs begin a new screen with.
var clearSequences = [][]byte{[]byte("\x1b[2J"), []byte("\x1b[?1049h"), []byte("\x1bc")}

// replay shows the last screenful: the modes that the program has set, and its output since it last
// cleared the screen, or the last rows lines. rows below 1 stand for 24. If the job wrote more than
// is remembered, the replay can begin in the middle of a sequence.
func (s *screen) replay(rows int) []byte {
	out := []byte(s.modes.set("h"))
	tail := s.tail
	at := -1
	for _, c := range clearSequences {
		at = max(at, bytes.LastIndex(tail, c))
	}
	if at >= 0 {
		return append(out, tail[at:]...)
	}
	if rows <= 0 {
		rows = 24
	}
	from := len(tail)
	for n := 0; n <= rows && from > 0; n++ { // the last line may have no end
		if from = bytes.LastIndexByte(tail[:from], '\n'); from < 0 {
			return append(out, tail...)
		}
	}
	return append(out, tail[min(from+1, len(tail)):]...)
}

// Modes are the DEC private modes that a program has set and not reset, which a client that comes
// later would not know. The command line uses it, too, to leave the terminal of a client that
// detaches as it was. One goroutine writes to it.
type Modes struct {
	on []int
	// how many bytes of modePrefix were seen; text is the numbers behind it
	state int
	text  []byte
}

// maxModes bounds what a hostile program can make us remember.
const maxModes = 64

// Write looks for ESC [ ? numbers h or l, also across writes. It never fails.
func (m *Modes) Write(b []byte) (int, error) {
	for _, c := range b {
		m.next(c)
	}
	return len(b), nil
}

// ESC [ ? begins a DEC private mode: xterm's "Control Sequences".
var modePrefix = []byte("\x1b[?")

// next takes one byte. A sequence that is too long is dropped.
func (m *Modes) next(c byte) {
	switch {
	// A byte that does not fit may be the first of another prefix.
	case m.state < len(modePrefix):
		if c != modePrefix[m.state] {
			m.state = 0
		}
		if c == modePrefix[m.state] {
			m.state++
		}
		m.text = m.text[:0]
	case (c >= '0' && c <= '9' || c == ';') && len(m.text) < 64:
		m.text = append(m.text, c)
	default:
		if c == 'h' || c == 'l' {
			m.change(c == 'h')
		}
		m.state = 0
		if c == modePrefix[0] {
			m.state = 1
		}
	}
}

// change records each of the numbers as set or reset, in the order in which they were set.
func (m *Modes) change(on bool) {
	for _, field := range strings.Split(string(m.text), ";") {
		n, err := strconv.Atoi(field)
		if err != nil {
			continue
		}
		m.on = slices.DeleteFunc(m.on, func(v int) bool { return v == n })
		if on && len(m.on) < maxModes {
			m.on = append(m.on, n)
		}
	}
}

// cursorVisible is set before a program begins.
const cursorVisible = 25

// Reset restores a terminal to what it was before the program wrote to it.
func (m *Modes) Reset() string { return m.set("l") + fmt.Sprintf("\x1b[?%dh\x1b[0m", cursorVisible) }

// set is the sequence that sets ("h") or resets ("l") all modes.
func (m *Modes) set(how string) string {
	var out strings.Builder
	for _, n := range m.on {
		fmt.Fprintf(&out, "\x1b[?%d%s", n, how)
	}
	return out.String()
}
