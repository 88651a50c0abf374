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

// maxDepth bounds how deep JSON may nest; the parser itself recurses, so a file of brackets could
// fill the stack.
const maxDepth = 100

// parseJSONC reads JSON with comments and trailing commas into the same tree YAML gives, line
// numbers included, so that one decoder serves both. Of what is none it gives the line and what is
// wrong there.
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

// jsonLine takes the line number and the reason out of an error of hujson, which has no type for
// them.
var jsonLine = agentbox.Pattern(`^hujson: line ([0-9]+), column [0-9]+: (.*)`)

// outsideBrackets matches what may hold brackets that nest nothing: strings and comments, also ones
// without an end.
var outsideBrackets = agentbox.Pattern(`"(?:[^"\\]|\\.)*(?:"|$)|//[^\n]*|/\*(?s:.*?)(?:\*/|$)`)

// depth is the deepest nesting of brackets outside of strings and comments.
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

// tree converts values in the order of the file, so that counting lines never starts over.
type tree struct {
	data []byte
	at   int // offset up to which lines are counted
	line int // newlines before it
}

// lineOf gives the line of an offset, from 1. Offsets come in order, so each byte is counted once.
func (t *tree) lineOf(offset int) int {
	if offset > t.at && offset <= len(t.data) {
		t.line += bytes.Count(t.data[t.at:offset], []byte("\n"))
		t.at = offset
	}
	return t.line + 1
}

// node makes YAML's node of a JSON value, its keys included, in the order of the file.
func (t *tree) node(v *hujson.Value) *yaml.Node {
	n := &yaml.Node{Line: t.lineOf(v.StartOffset)}
	switch x := v.Value.(type) {
	case *hujson.Object:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		for i := range x.Members {
			n.Content = append(n.Content, t.node(&x.Members[i].Name), t.node(&x.Members[i].Value))
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

// literal is a JSON literal as YAML tags one. A number that is no int64 is a float, as YAML has it.
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
