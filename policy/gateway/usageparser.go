package gateway

import (
	"strconv"
	"strings"

	"agentbox/agentbox"
)

// usageParser finds the usage in a response of a model's API, which is JSON or a stream of events
// with a JSON document each. It takes bytes in pieces of any size and uses a fixed amount of
// memory. It skips what it does not understand, and does not count a number that it does not find.
// The server is trusted, since it also writes the bill.
//
// It looks for members by their paths, in the document or one level down (envelopes). A stream
// repeats some numbers with the total so far: the largest counts. One goroutine at a time uses it.
type usageParser struct {
	// events says that the response is a stream of server-sent events (text/event-stream, WHATWG
	// HTML 9.2), else one JSON document.
	events bool
	// matched is how many bytes of dataField the line has so far; otherField if it has another.
	matched int
	started bool // the line has a byte
	afterCR bool // the last byte was a CR

	// doc is the document that is being read, count the largest number of each metric so far.
	doc   usageScanner
	count [metrics]int64
	// reported is set once a number was found. A response without numbers is counted as unsaid.
	reported bool
	model    string
	end      ending
	told     bool // a document has begun
}

// ending is how an answer ended: the larger of two counts.
type ending int

const (
	unsaid ending = iota
	complete
	cutOff   // at its limit, or the server failed
	declined // by the model, or by a filter
)

// endings are the reasons that APIs give. Any other one, as of an answer that goes on, says nothing.
var endings = map[string]ending{
	"end_turn": complete, "tool_use": complete, "stop_sequence": complete, "pause_turn": complete, "stop": complete, "tool_calls": complete,
	"function_call": complete, "completed": complete, "STOP": complete,
	"max_tokens": cutOff, "model_context_window_exceeded": cutOff, "length": cutOff, "incomplete": cutOff, "failed": cutOff, "MAX_TOKENS": cutOff,
	"refusal": declined, "content_filter": declined, "SAFETY": declined, "PROHIBITED_CONTENT": declined, "BLOCKLIST": declined, "RECITATION": declined, "SPII": declined,
}

// dataField begins the lines that the documents are in.
const (
	dataField  = "data:"
	otherField = -1
)

// Write takes the next bytes. It never fails.
func (u *usageParser) Write(b []byte) (int, error) {
	u.doc.found = u.observe
	for _, c := range b {
		if u.events {
			u.eventByte(c)
		} else {
			u.doc.scan(c)
		}
	}
	return len(b), nil
}

// eventByte takes a byte of events: lines end with CR, LF or both, an empty one ends an event.
func (u *usageParser) eventByte(c byte) {
	afterCR := u.afterCR
	u.afterCR = c == '\r'
	switch {
	case c == '\n' && afterCR:
	case c == '\n' || c == '\r':
		if !u.started {
			u.doc.reset()
		} else if u.matched == len(dataField) {
			u.doc.scan('\n')
			u.told = true
		}
		u.matched, u.started = 0, false
	case u.matched == len(dataField):
		u.doc.scan(c)
	case u.matched >= 0 && c == dataField[u.matched]:
		u.matched, u.started = u.matched+1, true
	default:
		u.matched, u.started = otherField, true
	}
}

// Bounds of one response. Larger numbers of tokens, and names of models with more bytes, are
// ignored.
const (
	maxTokens    = 1e12
	maxModelName = 64
)

func (u *usageParser) observe(m metric, text string) {
	switch m {
	case modelName:
		if isModelName(text) {
			u.model = text
		}
		return
	case endReason:
		u.end = max(u.end, endings[text])
		return
	}
	if n, err := strconv.ParseUint(text, 10, 63); err == nil && n <= maxTokens {
		u.reported = true
		u.count[m] = max(u.count[m], int64(n))
	}
}

// isModelName tells whether a text may be shown: printable ASCII without spaces.
func isModelName(s string) bool {
	return s != "" && len(s) <= maxModelName && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// result is what was found so far. Some APIs count cached tokens as input, others separately;
// Tokens has each once. A stream whose server ended it (whole) before its answer had ended was cut.
func (u *usageParser) result(whole bool) (model string, t agentbox.Tokens) {
	n := &u.count
	t = agentbox.Tokens{
		Answers: 1, Input: max(n[inputTokens]-n[cachedInput], 0) + n[toolInput], CacheRead: n[cacheRead] + n[cachedInput], CacheWrite: n[cacheWrite],
		Output: n[outputTokens] + n[reasoning],
	}
	if !u.reported {
		t.Unreported = 1
	}
	switch {
	case u.end == cutOff, u.end == unsaid && u.told && whole:
		t.Cut = 1
	case u.end == declined:
		t.Refused = 1
	}
	return u.model, t
}
