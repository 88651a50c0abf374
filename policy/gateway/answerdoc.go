package gateway

// meaning is what a place in an answer says.
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
	nothingKnown
)

// key is a member's name that is looked for.
type key int

// The keys. A leaf's key is leafKeys and its meaning.
const (
	otherKey   key = iota
	wrapKey        // of a document within the document
	usageKey       // of Anthropic and OpenAI
	geminiKey      // of Gemini
	detailsKey     // of OpenAI, within the former
	cachedKey      // within that
	modelKey
	leafKeys // from here on: leaf
)

// keys are all that are looked for; those from leafKeys on say what the number is.
var keys = map[string]key{
	"message": wrapKey, "response": wrapKey, "session": wrapKey, "usage": usageKey, "usageMetadata": geminiKey, "model": modelKey, "modelVersion": modelKey,
	"input_tokens_details": detailsKey, "input_token_details": detailsKey, "prompt_tokens_details": detailsKey, "cached_tokens": cachedKey,
	"input_tokens": leafKeys + key(input), "prompt_tokens": leafKeys + key(input), "output_tokens": leafKeys + key(output), "completion_tokens": leafKeys + key(output),
	"cache_read_input_tokens": leafKeys + key(cacheRead), "cache_creation_input_tokens": leafKeys + key(cacheWrite),
}

// geminiKeys are those within usageMetadata.
var geminiKeys = map[string]key{
	"promptTokenCount": leafKeys + key(input), "candidatesTokenCount": leafKeys + key(output), "thoughtsTokenCount": leafKeys + key(thoughts),
	"cachedContentTokenCount": leafKeys + key(cachedInput), "toolUsePromptTokenCount": leafKeys + key(toolInput),
}

// meant says what a path of keys means.
func meant(path []key) meaning {
	if len(path) > 1 && path[0] == wrapKey {
		path = path[1:]
	}
	last := path[len(path)-1]
	switch {
	case len(path) == 1 && last == modelKey:
		return modelName
	case len(path) == 2 && (path[0] == usageKey || path[0] == geminiKey) && last >= leafKeys:
		return meaning(last - leafKeys)
	case len(path) == 3 && path[0] == usageKey && path[1] == detailsKey && last == cachedKey:
		return cachedInput
	}
	return nothingKnown
}

// Bounds of what is looked at; the rest of a document is only counted in braces.
const (
	deepest  = 5   // the deepest member that is looked for, one array around all included
	longText = 128 // bytes of a name or value that are looked at; longer ones are not ours
)

// document reads a JSON document byte by byte and tells the values of members that have a meaning.
// It checks of JSON only what it needs to know where it is, and gives up where that is lost.
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
	value  bool // behind the colon
	key    key  // of the present member
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
		l.key = otherKey
	default:
		l.key = d.lookUp(d.text[:d.n])
	}
	d.n, d.strange = 0, false
}

// lookUp finds what a member's name means where it is: Gemini's names are looked for within
// usageMetadata only.
func (d *document) lookUp(name []byte) key {
	if outer := d.depth - 2; outer >= 0 && d.level[outer].object && d.level[outer].key == geminiKey {
		return geminiKeys[string(name)]
	}
	return keys[string(name)]
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
	path := make([]key, 0, deepest)
	for i := range d.depth {
		if i == 0 && !d.level[0].object {
			continue // a list of documents is a stream, too
		}
		if !d.level[i].object {
			return
		}
		path = append(path, d.level[i].key)
	}
	if len(path) == 0 || d.strange {
		return
	}
	if m := meant(path); m == sort || sort == numbers && m < numbers {
		d.found(m, string(d.text[:d.n]))
	}
}
