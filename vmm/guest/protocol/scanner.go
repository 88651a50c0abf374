package protocol

import "bytes"

// Scanner divides the bytes that an agent reads into lives. It holds back what may be the beginning
// of a Magic, from minHeld bytes on. SSH would read these as the length of a packet, an absurd one,
// and fail as if its client had left, whose commands are then hung up. It passes fewer bytes on at
// once, since an SSH packet may end with any bytes and its reader waits for them. A packet ends
// with minHeld bytes of Magic by chance once in four thousand million.
type Scanner struct {
	// Data gets the bytes of the current life; before the first life it is not called.
	Data func([]byte)
	// Begin ends the current life and gets the line that begins the next one, without its newline.
	// The slice is valid during the call only.
	Begin func(line []byte)

	state   scanState
	matched int    // how many bytes of Magic the input so far ends with
	held    int    // how many of them the life has not seen
	line    []byte // what came after Magic
}

// scanState is where in a stream of lives the reader is.
type scanState byte

const (
	scanIdle scanState = iota // no life: bytes are dropped
	scanLine                  // after Magic, before the newline
	scanLife                  // bytes go to the life
)

// minHeld is the size of an SSH packet's length field.
const minHeld = 4

// Feed takes the next bytes of the stream.
func (s *Scanner) Feed(p []byte) {
	for len(p) > 0 {
		if s.state == scanLine {
			p = s.feedLine(p)
		} else {
			p = s.feedLife(p)
		}
	}
}

// feedLife passes on what comes before a Magic, and returns what follows it. The part of a Magic
// that the input so far ends with is searched again, with p behind it; the life has seen the
// beginning of that part.
func (s *Scanner) feedLife(p []byte) []byte {
	seen := s.matched - s.held
	if s.matched > 0 {
		p = append([]byte(Magic[:s.matched]), p...)
	}
	before, after, found := bytes.Cut(p, []byte(Magic))
	s.matched, s.held = 0, 0
	if !found {
		s.matched = magicPrefix(p)
		if s.state == scanLife && s.matched >= minHeld {
			s.held = min(s.matched, len(p)-seen)
		}
		before = p[:len(p)-s.held]
	}
	if s.state == scanLife && len(before) > seen {
		s.Data(before[seen:])
	}
	if found {
		s.state, s.line = scanLine, s.line[:0]
	}
	return after
}

// feedLine collects the line after Magic and returns what follows it. A host that died in the
// middle of a line is followed by another Magic, whose newline ends the torn line.
func (s *Scanner) feedLine(p []byte) []byte {
	end := bytes.IndexByte(p, '\n')
	part := p
	if end >= 0 {
		part = p[:end]
	}
	if len(s.line)+len(part) > MaxLine+len(Magic) {
		s.state, s.matched, s.line = scanIdle, 0, nil
		return p // a Magic may be in it
	}
	s.line = append(s.line, part...)
	if end < 0 {
		return nil
	}
	if bytes.HasSuffix(s.line, []byte(Magic[:len(Magic)-1])) {
		s.line = s.line[:0]
		return p[end+1:]
	}
	s.state, s.matched = scanLife, 0
	s.Begin(s.line)
	return p[end+1:]
}

// magicPrefix is the length of the longest proper prefix of Magic that b ends with.
func magicPrefix(b []byte) int {
	for n := min(len(b), len(Magic)-1); n > 0; n-- {
		if b[len(b)-n] == Magic[0] && string(b[len(b)-n:]) == Magic[:n] {
			return n
		}
	}
	return 0
}
