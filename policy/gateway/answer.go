package gateway

import (
	"strconv"
	"strings"

	"agentbox/agentbox"
)

// answer finds what the answer of a model's API says of its usage, in JSON or in a stream of events
// with a JSON document each. It takes bytes as they come, in pieces of any size, with memory of a
// fixed size. What it does not understand it passes over: a number that is not found is not
// counted. The server is believed: what it says is what its owner bills.
//
// What is looked for is in places, in the document or one level down (wraps).
//
// A stream says some of it more than once, each time what it comes to so far: the largest counts.
type answer struct {
	events bool // of text/event-stream
	field  int  // bytes of the line that are those of dataField; otherField for another field
	filled bool // the line has a byte
	cr     bool // the last byte was a CR

	// doc is the document that is being read, count the largest number of each meaning so far.
	doc   document
	count [numbers]int64
	// said is set once a number was found; an answer without one is counted as such.
	said  bool
	model string
}

// dataField begins the lines that the documents are in.
const (
	dataField  = "data:"
	otherField = -1
)

// Write takes what comes next. It fails never.
func (a *answer) Write(b []byte) (int, error) {
	a.doc.found = a.found
	for _, c := range b {
		if a.events {
			a.event(c)
		} else {
			a.doc.byte(c)
		}
	}
	return len(b), nil
}

// event takes a byte of a stream of events. Lines end with CR, LF or both, and an empty one ends an
// event.
func (a *answer) event(c byte) {
	afterCR := a.cr
	a.cr = c == '\r'
	switch {
	case c == '\n' && afterCR:
	case c == '\n' || c == '\r':
		if !a.filled {
			a.doc.reset()
		} else if a.field == len(dataField) {
			a.doc.byte('\n')
		}
		a.field, a.filled = 0, false
	case a.field == len(dataField):
		a.doc.byte(c)
	case a.field >= 0 && c == dataField[a.field]:
		a.field, a.filled = a.field+1, true
	default:
		a.field, a.filled = otherField, true
	}
}

// Bounds of what is believed, of one answer: a number of tokens beyond these, or a name of a model
// that is longer, is nonsense, and neither sums nor logs take it.
const (
	mostTokens   = 1e12 // of an answer
	longestModel = 64
)

// found takes a value whose place has a meaning.
func (a *answer) found(place meaning, text string) {
	if place == modelName {
		if printable(text) {
			a.model = text
		}
		return
	}
	if n, err := strconv.ParseUint(text, 10, 63); err == nil && n <= mostTokens {
		a.said = true
		a.count[place] = max(a.count[place], int64(n))
	}
}

// printable tells whether a text may be shown as the name of a model: printable ASCII without
// spaces.
func printable(s string) bool {
	return s != "" && len(s) <= longestModel && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// result is what was said so far. Some APIs count what a cache had as input, others beside it:
// Tokens has each once.
func (a *answer) result() (model string, t agentbox.Tokens) {
	n := &a.count
	t = agentbox.Tokens{
		Answers: 1, Input: max(n[input]-n[cachedInput], 0) + n[toolInput], CacheRead: n[cacheRead] + n[cachedInput], CacheWrite: n[cacheWrite],
		Output: n[output] + n[thoughts],
	}
	if !a.said {
		t.Unsaid = 1
	}
	return a.model, t
}
