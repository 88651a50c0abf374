package gateway

import (
	"slices"
	"strings"
)

// meaning is what a place in an answer stands for.
type meaning int

// The meanings; those below numbers are indices into answer.count.
const (
	input       meaning = iota // with what a cache had, or without
	output                     // with thoughts, or without
	cachedInput                // of input
	cacheRead                  // beside input
	cacheWrite
	toolInput // beside input
	thoughts  // beside output
	numbers   // how many of the above there are
	modelName
)

// places are the paths of the members that are looked for. Anthropic and OpenAI have usage, Gemini
// usageMetadata.
var places = map[string]meaning{
	"model": modelName, "modelVersion": modelName,
	"usage.input_tokens": input, "usage.prompt_tokens": input, "usage.output_tokens": output, "usage.completion_tokens": output,
	"usage.cache_read_input_tokens": cacheRead, "usage.cache_creation_input_tokens": cacheWrite,
	"usage.input_tokens_details.cached_tokens": cachedInput, "usage.input_token_details.cached_tokens": cachedInput,
	"usage.prompt_tokens_details.cached_tokens": cachedInput,
	"usageMetadata.promptTokenCount":            input, "usageMetadata.toolUsePromptTokenCount": toolInput, "usageMetadata.cachedContentTokenCount": cachedInput,
	"usageMetadata.candidatesTokenCount": output, "usageMetadata.thoughtsTokenCount": thoughts,
}

// wraps are members that contain such a document: in Anthropic's first event, OpenAI's last, and
// the first message of OpenAI's realtime API.
var wraps = []string{"message", "response", "session"}

// words are the names in places and wraps, so that a name that was read is kept as one of these.
var words = func() map[string]string {
	known := map[string]string{}
	for _, name := range wraps {
		known[name] = name
	}
	for path := range places {
		for name := range strings.SplitSeq(path, ".") {
			known[name] = name
		}
	}
	return known
}()

// Bounds of what is parsed. Of the rest of a document only braces are counted.
const (
	deepest  = 5   // the deepest member that is looked for, one array around all included
	longText = 128 // bytes of a name or value that are looked at; longer ones are not ours
)

// document parses JSON byte by byte and reports the values of members that have a meaning. It
// checks only what it needs to know its place, and gives up when it loses it.
type document struct {
	found func(meaning, string)

	lost  bool
	depth int // of open objects and arrays
	level [deepest]level

	quoted, escaped bool // within a string; behind its backslash
	// strange says that the text has escapes, or is too long: it is none of ours.
	strange bool
	text    [longText]byte
	n       int
}

// level is an open object or array.
type level struct {
	object bool
	value  bool   // behind the colon
	key    string // of the present member, "" for one that nothing is known of
}

// reset begins another document.
func (d *document) reset() { *d = document{found: d.found} }

// byte takes the next byte: the state machine is where the byte is, in a string, behind a
// backslash, or outside.
func (d *document) byte(c byte) {
	switch {
	case d.lost:
	case d.escaped:
		d.escaped = false
	case d.quoted && c == '\\':
		d.escaped, d.strange = true, true
	case d.quoted && c == '"':
		d.quoted = false
		d.textEnds()
	case d.quoted:
		d.add(c)
	default:
		d.outside(c)
	}
}

// add keeps a byte of a string or a number.
func (d *document) add(c byte) {
	if d.n == len(d.text) {
		d.strange = true
		return
	}
	d.text[d.n] = c
	d.n++
}

// outside takes a byte that is not within a string.
func (d *document) outside(c byte) {
	switch c {
	case '"':
		d.quoted, d.strange, d.n = true, false, 0
	case '{', '[':
		d.open(c == '{')
	case '}', ']':
		d.numberEnds()
		if d.depth--; d.depth < 0 {
			d.lost = true
		}
	case ',', ':':
		d.numberEnds()
		if l := d.top(); l != nil && l.object {
			l.value = c == ':'
		}
	case ' ', '\t', '\n', '\r':
		d.numberEnds()
	default:
		d.add(c)
	}
}

// open begins an object or array. Below deepest it is only counted.
func (d *document) open(object bool) {
	d.n, d.strange = 0, false
	if d.depth < deepest {
		d.level[d.depth] = level{object: object}
	}
	d.depth++
}

// top is the innermost open object or array, nil where nothing is looked for.
func (d *document) top() *level {
	if d.depth < 1 || d.depth > deepest {
		return nil
	}
	return &d.level[d.depth-1]
}

// textEnds takes a string: a member's name, or a value.
func (d *document) textEnds() {
	l := d.top()
	switch {
	case l == nil || !l.object:
	case l.value:
		d.tell(modelName)
	case d.strange:
		l.key = ""
	default:
		l.key = words[string(d.text[:d.n])]
	}
	d.n, d.strange = 0, false
}

// numberEnds takes a value that is no string.
func (d *document) numberEnds() {
	if l := d.top(); d.n > 0 && l != nil && l.object && l.value {
		d.tell(numbers)
	}
	d.n, d.strange = 0, false
}

// tell gives the present value on if its place means something, and it is of the sort that belongs
// there: a text for modelName, else a number.
func (d *document) tell(sort meaning) {
	path := make([]string, 0, deepest)
	for i, l := range d.level[:d.depth] {
		switch {
		case i == 0 && !l.object: // a list of documents is a stream, too
		case !l.object || l.key == "" || d.strange:
			return
		default:
			path = append(path, l.key)
		}
	}
	if len(path) > 1 && slices.Contains(wraps, path[0]) {
		path = path[1:]
	}
	if m, known := places[strings.Join(path, ".")]; known && (m == sort || sort == numbers && m < numbers) {
		d.found(m, string(d.text[:d.n]))
	}
}
