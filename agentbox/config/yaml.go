package config

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"agentbox/agentbox"

	"go.yaml.in/yaml/v3"
)

// parseYAML reads agentbox.yaml. An empty file is allowed and means the defaults. A second document
// is a problem, because one half of the file would be ignored silently.
func parseYAML(data []byte, src source) (*Config, error) {
	d := &decoder{source: src, cfg: defaults()}
	d.cfg.Root, d.cfg.Source = src.root, src.name
	decode := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := decode.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		d.problems = append(d.problems, syntax(err, data))
		return nil, d.err()
	}
	if len(doc.Content) == 1 {
		d.section(doc.Content[0], topLevel)
	}
	// Only after a file that is right: what follows a mistake is most often its consequence.
	if len(d.problems) == 0 && decode.Decode(&second) != io.EOF {
		d.fail(&second, "more than one document: remove what follows the second ---")
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return d.cfg, nil
}

var (
	// The parser has no type for its errors; a text that these do not match is passed on whole.
	yamlLine = agentbox.Pattern(`^yaml: (?:line ([0-9]+): )?(.*)`)
	tabbed   = agentbox.Pattern(`(?m)^ *\t[ \t]*[^\s#]`)
)

// syntax makes a problem of an error of the YAML parser. It describes an indenting tab in five
// different ways, so that is looked for here. The errors of the parser are text only; a form that
// is not known here is passed on at line 1.
func syntax(err error, data []byte) problem {
	if at := tabbed().FindIndex(data); at != nil {
		return problem{1 + bytes.Count(data[:at[0]], []byte("\n")), "indented with a tab: YAML wants spaces"}
	}
	m := yamlLine().FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if m == nil {
		return problem{1, err.Error()}
	}
	line, _ := strconv.Atoi(m[1]) // no line: the first
	return problem{max(line, 1), "not valid YAML: " + m[2]}
}

// keyNames are the names of keys, in their order.
func keyNames(keys []key) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return names
}
