package gateway

import (
	"slices"
	"strings"
)

// metric is the meaning of a member in a model's response.
type metric int

// The metrics; those below metrics are indices into usageParser.count.
const (
	inputTokens  metric = iota // with what a cache had, or without
	outputTokens               // with reasoning, or without
	cachedInput                // part of inputTokens
	cacheRead                  // in addition to inputTokens
	cacheWrite
	toolInput // in addition to inputTokens
	reasoning // in addition to outputTokens
	metrics   // how many of the above there are; also: any number
	modelName
)

// metricPaths are the paths of the members that are looked for. Anthropic and OpenAI have usage,
// Gemini usageMetadata.
var metricPaths = map[string]metric{
	"model": modelName, "modelVersion": modelName,
	"usage.input_tokens": inputTokens, "usage.prompt_tokens": inputTokens, "usage.output_tokens": outputTokens, "usage.completion_tokens": outputTokens,
	"usage.cache_read_input_tokens": cacheRead, "usage.cache_creation_input_tokens": cacheWrite,
	"usage.input_tokens_details.cached_tokens": cachedInput, "usage.input_token_details.cached_tokens": cachedInput,
	"usage.prompt_tokens_details.cached_tokens": cachedInput,
	"usageMetadata.promptTokenCount":            inputTokens, "usageMetadata.toolUsePromptTokenCount": toolInput, "usageMetadata.cachedContentTokenCount": cachedInput,
	"usageMetadata.candidatesTokenCount": outputTokens, "usageMetadata.thoughtsTokenCount": reasoning,
}

// envelopes are members that contain such a document: in Anthropic's first event, OpenAI's last,
// and the first message of OpenAI's realtime API.
var envelopes = []string{"message", "response", "session"}

// knownNames are the names in metricPaths and envelopes. A name that was read is kept as one of
// these strings, so that it takes no memory.
var knownNames = func() map[string]string {
	known := map[string]string{}
	for _, name := range envelopes {
		known[name] = name
	}
	for path := range metricPaths {
		for name := range strings.SplitSeq(path, ".") {
			known[name] = name
		}
	}
	return known
}()

// Bounds of what is parsed. Of the rest of a document only braces are counted.
const (
	maxDepth = 5   // the deepest member that is looked for, one array around all included
	maxText  = 128 // bytes of a name or value that are looked at; longer ones are none of metricPaths
)

// usageScanner parses JSON byte by byte and reports the values of members that have a metric. It
// checks only what it needs to know its place, and gives up when it loses it. It allocates nothing
// for what it does not report.
type usageScanner struct {
	found func(metric, string)

	failed bool
	depth  int // of open objects and arrays
	stack  [maxDepth]container

	inString, escaped bool // within a string; behind its backslash
	// ignored says that the text has escapes, or is too long: it is not looked at.
	ignored bool
	text    [maxText]byte
	n       int
}

// container is an open object or array.
type container struct {
	object  bool
	inValue bool   // behind the colon
	key     string // of the present member, "" for one that is not in knownNames
}

// reset begins another document.
func (d *usageScanner) reset() { *d = usageScanner{found: d.found} }

// scan takes the next byte: the state machine is where the byte is, in a string, behind a
// backslash, or outside.
func (d *usageScanner) scan(c byte) {
	switch {
	case d.failed:
	case d.escaped:
		d.escaped = false
	case d.inString && c == '\\':
		d.escaped, d.ignored = true, true
	case d.inString && c == '"':
		d.inString = false
		d.endString()
	case d.inString:
		d.append(c)
	default:
		d.scanOutside(c)
	}
}

// append keeps a byte of a string or a number.
func (d *usageScanner) append(c byte) {
	if d.n == len(d.text) {
		d.ignored = true
		return
	}
	d.text[d.n] = c
	d.n++
}

// scanOutside takes a byte that is not within a string.
func (d *usageScanner) scanOutside(c byte) {
	switch c {
	case '"':
		d.inString, d.ignored, d.n = true, false, 0
	case '{', '[':
		d.open(c == '{')
	case '}', ']':
		d.endNumber()
		if d.depth--; d.depth < 0 {
			d.failed = true
		}
	case ',', ':':
		d.endNumber()
		if l := d.innermost(); l != nil && l.object {
			l.inValue = c == ':'
		}
	case ' ', '\t', '\n', '\r':
		d.endNumber()
	default:
		d.append(c)
	}
}

// open begins an object or array. Below maxDepth it is only counted.
func (d *usageScanner) open(object bool) {
	d.n, d.ignored = 0, false
	if d.depth < maxDepth {
		d.stack[d.depth] = container{object: object}
	}
	d.depth++
}

// innermost is the innermost open object or array, nil where nothing is looked for.
func (d *usageScanner) innermost() *container {
	if d.depth < 1 || d.depth > maxDepth {
		return nil
	}
	return &d.stack[d.depth-1]
}

// endString takes a complete string: a member's name, or a value.
func (d *usageScanner) endString() {
	l := d.innermost()
	switch {
	case l == nil || !l.object:
	case l.inValue:
		d.report(modelName)
	case d.ignored:
		l.key = ""
	default:
		l.key = knownNames[string(d.text[:d.n])]
	}
	d.n, d.ignored = 0, false
}

// endNumber takes a value that is no string.
func (d *usageScanner) endNumber() {
	if l := d.innermost(); d.n > 0 && l != nil && l.object && l.inValue {
		d.report(metrics)
	}
	d.n, d.ignored = 0, false
}

// report passes the present value to found if its path has a metric, and the value has the type
// that the metric needs: a text for modelName, else a number, for which kind is metrics.
func (d *usageScanner) report(kind metric) {
	path := make([]string, 0, maxDepth)
	for i, l := range d.stack[:d.depth] {
		switch {
		case i == 0 && !l.object: // a list of documents is a stream, too
		case !l.object || l.key == "" || d.ignored:
			return
		default:
			path = append(path, l.key)
		}
	}
	if len(path) > 1 && slices.Contains(envelopes, path[0]) {
		path = path[1:]
	}
	if m, known := metricPaths[strings.Join(path, ".")]; known && (m == kind || kind == metrics && m < metrics) {
		d.found(m, string(d.text[:d.n]))
	}
}
