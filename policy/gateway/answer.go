package gateway

import (
	"strconv"
	"strings"

	"agentbox/agentbox"
)

// answer finds the usage in a response of a model's API, which is JSON or a stream of events with a
// JSON document each. It takes bytes in pieces of any size and uses a fixed amount of memory. It
// skips what it does not understand, and does not count a number that it does not find. The server
// is trusted, since it also writes the bill.
//
// It looks for places, in the document or one level down (wraps). A stream repeats some numbers
// with the total so far: the largest counts.
type answer struct {
	events bool // of text/event-stream
	field  int  // bytes of the line that are those of dataField; otherField for another field
	filled bool // the line has a byte
	cr     bool // the last byte was a CR

	// doc is the document that is being read, count the largest number of each meaning so far.
	doc   document
	count [numbers]int64
	// said is set once a number was found. An answer without numbers is counted as unsaid.
	said  bool
	model string
}

// dataField begins the lines that the documents are in.
const (
	dataField  = "data:"
	otherField = -1
)

// Write takes the next bytes. It never fails.
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

// event takes a byte of a stream of events. Lines end with CR, LF or both; an empty line ends an
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

// Bounds of one answer. Larger numbers of tokens and longer names of models are ignored.
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

// result is what was found so far. Some APIs count cached tokens as input, others separately;
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
