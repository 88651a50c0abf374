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
	endReason // why the answer ended
)

// metricPaths are the paths of the members that are looked for. Anthropic and OpenAI have usage,
// Gemini usageMetadata.
var metricPaths = map[string]metric{
	"model": modelName, "modelVersion": modelName,
	"stop_reason": endReason, "delta.stop_reason": endReason, "choices.finish_reason": endReason, "status": endReason, "incomplete_details.reason": endReason,
	"candidates.finishReason": endReason, "promptFeedback.blockReason": endReason,
	"usage.input_tokens": inputTokens, "usage.prompt_tokens": inputTokens, "usage.output_tokens": outputTokens, "usage.completion_tokens": outputTokens,
	"usage.cache_read_input_tokens": cacheRead, "usage.cache_creation_input_tokens": cacheWrite,
	"usage.input_tokens_details.cached_tokens": cachedInput, "usage.input_token_details.cached_tokens": cachedInput,
	"usage.prompt_tokens_details.cached_tokens": cachedInput,
	"usageMetadata.promptTokenCount":            inputTokens, "usageMetadata.toolUsePromptTokenCount": toolInput, "usageMetadata.cachedContentTokenCount": cachedInput,
	"usageMetadata.candidatesTokenCount": outputTokens, "usageMetadata.thoughtsTokenCount": reasoning,
}

// choices are members with a list of answers, which end one by one.
var choices = []string{"choices", "candidates"}

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

func (u *usageScanner) reset() { *u = usageScanner{found: u.found} }

// scan takes the next byte: in a string, behind a backslash, or outside.
func (u *usageScanner) scan(c byte) {
	switch {
	case u.failed:
	case u.escaped:
		u.escaped = false
	case u.inString && c == '\\':
		u.escaped, u.ignored = true, true
	case u.inString && c == '"':
		u.inString = false
		u.endString()
	case u.inString:
		u.append(c)
	default:
		u.scanOutside(c)
	}
}

func (u *usageScanner) append(c byte) {
	if u.n == len(u.text) {
		u.ignored = true
		return
	}
	u.text[u.n] = c
	u.n++
}

// scanOutside takes a byte that is not within a string.
func (u *usageScanner) scanOutside(c byte) {
	switch c {
	case '"':
		u.inString, u.ignored, u.n = true, false, 0
	case '{', '[':
		u.open(c == '{')
	case '}', ']':
		u.endNumber()
		if u.depth--; u.depth < 0 {
			u.failed = true
		}
	case ',', ':':
		u.endNumber()
		if l := u.innermost(); l != nil && l.object {
			l.inValue = c == ':'
		}
	case ' ', '\t', '\n', '\r':
		u.endNumber()
	default:
		u.append(c)
	}
}

// open begins an object or array. Below maxDepth it is only counted.
func (u *usageScanner) open(object bool) {
	u.n, u.ignored = 0, false
	if u.depth < maxDepth {
		u.stack[u.depth] = container{object: object}
	}
	u.depth++
}

// innermost is the innermost open object or array, nil where nothing is looked for.
func (u *usageScanner) innermost() *container {
	if u.depth < 1 || u.depth > maxDepth {
		return nil
	}
	return &u.stack[u.depth-1]
}

// endString takes a complete string: a member's name, or a value.
func (u *usageScanner) endString() {
	l := u.innermost()
	switch {
	case l == nil || !l.object:
	case l.inValue:
		u.report(modelName, endReason)
	case u.ignored:
		l.key = ""
	default:
		l.key = knownNames[string(u.text[:u.n])]
	}
	u.n, u.ignored = 0, false
}

// endNumber takes a value that is no string.
func (u *usageScanner) endNumber() {
	if l := u.innermost(); u.n > 0 && l != nil && l.object && l.inValue {
		u.report(metrics)
	}
	u.n, u.ignored = 0, false
}

// report passes the present value to found if its path has a metric, and the value has the type
// that the metric needs: a text for modelName and endReason, else a number, for which it is metrics.
func (u *usageScanner) report(kinds ...metric) {
	path := make([]string, 0, maxDepth)
	for i, l := range u.stack[:u.depth] {
		switch {
		case i == 0 && !l.object: // a list of documents is a stream, too
		case !l.object && !u.ignored && slices.Contains(choices, u.stack[i-1].key):
		case !l.object || l.key == "" || u.ignored:
			return
		default:
			path = append(path, l.key)
		}
	}
	if len(path) > 1 && slices.Contains(envelopes, path[0]) {
		path = path[1:]
	}
	if m, known := metricPaths[strings.Join(path, ".")]; known && slices.Contains(kinds, max(m, metrics)) {
		u.found(m, string(u.text[:u.n]))
	}
}
