package config

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"agentbox/agentbox"

	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v3"
)

// maxDepth bounds the nesting of JSON. The parser is recursive, so a file full of brackets could
// overflow the stack.
const maxDepth = 100

// parseJSONC parses JSON with comments and trailing commas into a tree of YAML nodes with line
// numbers, so that one decoder serves both formats. For invalid input it returns the line and
// the reason.
func parseJSONC(data []byte) (doc *yaml.Node, line int, wrong string) {
	if depth(data) > maxDepth {
		return nil, 1, "nested too deep"
	}
	v, err := hujson.Parse(data)
	if err == nil {
		t := &tree{data: data}
		return t.node(&v), 0, ""
	}
	m := jsonLine().FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if m == nil {
		return nil, 1, "not valid JSON: " + err.Error()
	}
	line, _ = strconv.Atoi(m[1])
	return nil, line, "not valid JSON: " + m[2]
}

// jsonLine extracts line number and reason from an error of hujson, which has no type for them.
var jsonLine = agentbox.Pattern(`^hujson: line ([0-9]+), column [0-9]+: (.*)`)

// outsideBrackets matches strings and comments, also unterminated ones: brackets there do not nest.
var outsideBrackets = agentbox.Pattern(`"(?:[^"\\]|\\.)*(?:"|$)|//[^\n]*|/\*(?s:.*?)(?:\*/|$)`)

// depth returns the deepest nesting of brackets outside of strings and comments.
func depth(data []byte) int {
	now, deepest := 0, 0
	for _, b := range outsideBrackets().ReplaceAll(data, nil) {
		switch b {
		case '{', '[':
			now++
			deepest = max(deepest, now)
		case '}', ']':
			now--
		}
	}
	return deepest
}

// tree converts values in file order, so that each byte is searched for newlines only once.
type tree struct {
	data []byte
	at   int // offset up to which lines are counted
	line int // newlines before it
}

// lineOf returns the line of an offset, counted from 1. Offsets must not decrease between calls.
func (t *tree) lineOf(offset int) int {
	if offset > t.at && offset <= len(t.data) {
		t.line += bytes.Count(t.data[t.at:offset], []byte("\n"))
		t.at = offset
	}
	return t.line + 1
}

// node converts a JSON value to a YAML node, with keys in file order.
func (t *tree) node(v *hujson.Value) *yaml.Node {
	n := &yaml.Node{Line: t.lineOf(v.StartOffset)}
	switch x := v.Value.(type) {
	case *hujson.Object:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		at := map[string]int{} // of a repeated key the last value counts, as wherever JSON is read
		for i := range x.Members {
			k, v := t.node(&x.Members[i].Name), t.node(&x.Members[i].Value)
			if first, again := at[k.Value]; again {
				n.Content[first], n.Content[first+1] = k, v
				continue
			}
			at[k.Value] = len(n.Content)
			n.Content = append(n.Content, k, v)
		}
	case *hujson.Array:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		for i := range x.Elements {
			n.Content = append(n.Content, t.node(&x.Elements[i]))
		}
	case hujson.Literal:
		n.Kind = yaml.ScalarNode
		n.Tag, n.Value = literal(x)
	}
	return n
}

// literal returns the YAML tag and value of a JSON literal. A number that does not fit into an
// int64 is a float, as in YAML.
func literal(l hujson.Literal) (tag, value string) {
	switch l.Kind() {
	case '"':
		return "!!str", l.String()
	case 'n':
		return "!!null", ""
	case 't', 'f':
		return "!!bool", string(l)
	}
	var i json.Number
	if err := json.Unmarshal(l, &i); err == nil {
		if _, err := i.Int64(); err == nil {
			return "!!int", string(l)
		}
	}
	return "!!float", string(l)
}
