package yamlfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
)

// maxNodes bounds how many values are read, counting those behind aliases each time. Otherwise a
// file of one megabyte could expand to billions of values. No hand-written file has as many.
const maxNodes = 100_000

// Reader reads a tree of nodes and collects every problem on the way. A read that fails adds a
// problem, so a caller that needs to know compares Problems before and after. Use a Reader for one
// file, in one goroutine.
type Reader struct {
	Name string // name of the file in problems

	problems []problem
	// nodes counts the values visited, those behind an alias each time. See maxNodes.
	nodes int
	at    string // the key being read, such as services.db.port
}

// problem is one mistake: its line, from 1, and a message that may quote the file.
type problem struct {
	line int
	text string
}

// Fail adds a problem at a node. Reading continues, so that later mistakes are reported too.
func (r *Reader) Fail(n *yaml.Node, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if r.at != "" {
		text = r.at + ": " + text
	}
	r.FailAt(n.Line, text)
}

// FailAt adds a problem on a line. Line 0 stands for the file as a whole.
func (r *Reader) FailAt(line int, text string) {
	r.problems = append(r.problems, problem{max(line, 1), text})
}

// Problems returns the number of problems so far.
func (r *Reader) Problems() int { return len(r.problems) }

// Within calls read and prefixes the problems that it adds with key.
func (r *Reader) Within(key string, read func()) {
	outer := r.at
	if r.at != "" {
		key = r.at + "." + key
	}
	r.at = key
	read()
	r.at = outer
}

// Err returns all problems in the order of the file as one *agentbox.Error of code Invalid with a
// hint, or nil if there are none. It lists at most 20, one per line: more usually follow from one
// mistake and would push the first off the screen.
func (r *Reader) Err(hint string) error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	lines := make([]string, len(r.problems))
	for i, p := range r.problems {
		lines[i] = fmt.Sprintf("%s:%d: %s", r.Name, p.line, agentbox.Printable(p.text))
	}
	const most = 20
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("%s: and %s", r.Name, agentbox.Plural(len(lines)-most, "more problem")))
	}
	return agentbox.Errorf(agentbox.Invalid, "%w", errors.New(strings.Join(lines, "\n"))).WithHint("%s", hint)
}

// Document reads the single document of a file. It does not call read for an empty one. A second
// document is a problem, because it would otherwise be ignored silently.
func (r *Reader) Document(data []byte, read func(root *yaml.Node)) {
	decode := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := decode.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		r.syntax(err, data)
		return
	}
	if len(doc.Content) == 1 {
		read(doc.Content[0])
	}
	// Only if the file is correct so far: a later error usually follows from an earlier mistake.
	if len(r.problems) == 0 && decode.Decode(&second) != io.EOF {
		r.FailAt(second.Line, "more than one document: remove what follows the second ---")
	}
}

var (
	// The parser has no type for its errors. Text that does not match is reported whole.
	yamlLine = agentbox.Pattern(`^yaml: (?:line ([0-9]+): )?(.*)`)
	tabbed   = agentbox.Pattern(`(?m)^ *\t[ \t]*[^\s#]`)
)

// syntax turns an error of the YAML parser into a problem. The parser describes an indenting tab in
// five different ways, so syntax looks for tabs itself. The parser's errors are only text; an
// unknown form is reported on line 1.
func (r *Reader) syntax(err error, data []byte) {
	if at := tabbed().FindIndex(data); at != nil {
		r.FailAt(1+bytes.Count(data[:at[0]], []byte("\n")), "indented with a tab: YAML wants spaces")
		return
	}
	m := yamlLine().FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if m == nil {
		r.FailAt(1, err.Error())
		return
	}
	line, _ := strconv.Atoi(m[1]) // without a line: the first
	r.FailAt(line, "not valid YAML: "+m[2])
}

// Value follows aliases and counts the values read. ok is false for a value that is absent or
// cannot be read.
func (r *Reader) Value(n *yaml.Node) (v *yaml.Node, ok bool) {
	r.nodes++
	if r.nodes == maxNodes {
		r.Fail(n, "too many values: the aliases of this file multiply")
	}
	if r.nodes >= maxNodes {
		return n, false
	}
	if n.Kind == yaml.AliasNode {
		if n.Alias == nil || n.Alias.Kind == yaml.AliasNode {
			r.Fail(n, "an alias of an alias")
			return n, false
		}
		n = n.Alias
	}
	return n, n.Kind != yaml.ScalarNode || n.ShortTag() != "!!null"
}

// Pairs visits the keys of a mapping in the order of the file. A duplicate key is a problem. Merge
// keys are refused, because parsers differ in how they treat duplicates.
func (r *Reader) Pairs(n *yaml.Node, visit func(k, v *yaml.Node)) {
	n, ok := r.Value(n)
	if !ok {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.Fail(n, "expected keys and values, found %s", Kind(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if _, ok := r.Value(k); !ok && r.nodes >= maxNodes {
			return
		}
		switch first, twice := seen[k.Value]; {
		case k.Kind != yaml.ScalarNode:
			r.Fail(k, "a key must be a word, not %s", Kind(k))
		case k.ShortTag() == "!!merge":
			r.Fail(k, "merge keys (<<) are not supported: repeat the values")
		case twice:
			r.Fail(k, "key `%s` appears twice, first on line %d", agentbox.Clip(k.Value), first)
		default:
			seen[k.Value] = k.Line
			visit(k, v)
		}
	}
}

// Items visits the elements of a list. A single value stands for a list of one. An empty element is
// a problem, since it is usually a forgotten value.
func (r *Reader) Items(n *yaml.Node, visit func(item *yaml.Node)) {
	n, ok := r.Value(n)
	if !ok {
		return
	}
	if n.Kind != yaml.SequenceNode {
		visit(n)
		return
	}
	for _, item := range n.Content {
		if v, ok := r.Value(item); ok {
			visit(v)
		} else if r.nodes < maxNodes {
			r.Fail(item, "an element of the list is empty")
		}
	}
}

// Text reads any scalar as the text that was written, so `CI: 1` is "1" and `run: true` is the
// command. ok is false if there is no value, which is no problem, or if a problem was added.
func (r *Reader) Text(n *yaml.Node) (text string, ok bool) {
	n, ok = r.Value(n)
	if !ok {
		return "", false
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!binary" {
		r.Fail(n, "expected text, found %s", Kind(n))
		return "", false
	}
	if strings.ContainsRune(n.Value, 0) {
		r.Fail(n, "text may not contain a NUL byte")
		return "", false
	}
	return n.Value, true
}

// Kind names the kind of a node, for messages that say what was expected instead.
func Kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!str":
		return fmt.Sprintf("the text %q", agentbox.Clip(n.Value))
	case "!!null":
		return "nothing"
	}
	return agentbox.Clip(n.Value)
}
