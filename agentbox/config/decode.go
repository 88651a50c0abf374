package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentbox/agentbox"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds what is read through aliases: a file of a megabyte can otherwise stand for
// billions of values. No configuration that somebody wrote has as many.
const maxNodes = 100_000

// source says where the bytes of a configuration came from.
type source struct {
	name string // as problems name it, relative to root
	root string // the repository's root
	home string // the user's home directory on the host; "" when there is none
}

// problem is one mistake of a file: the line it is on, from 1, and what is wrong, in words that may
// quote the file.
type problem struct {
	line int
	text string
}

// decoder reads a tree of nodes into a Config and collects every problem on the way. A read that
// fails adds a problem and leaves what it should have set as it was, so a caller that needs to know
// compares len(problems) before and after. It is used by one goroutine, for one file.
type decoder struct {
	source
	cfg      *Config
	problems []problem
	// nodes counts the values visited, those behind an alias each time: see maxNodes.
	nodes int
	at    string // the key being read, as services.db.port
}

// key is one known key of a mapping. read is called only for a key that has a value, with the
// decoder standing at that key, and stores the value itself.
type key struct {
	name string
	read func(d *decoder, n *yaml.Node)
}

// fail notes a problem at a node. Reading goes on: the next mistake is worth telling, too.
func (d *decoder) fail(n *yaml.Node, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if d.at != "" {
		text = d.at + ": " + text
	}
	d.problems = append(d.problems, problem{n.Line, text})
}

// within reads something below key.
func (d *decoder) within(key string, read func()) {
	outer := d.at
	if d.at != "" {
		key = d.at + "." + key
	}
	d.at = key
	read()
	d.at = outer
}

// warn adds to Config.Warnings what a file asks for and boxes do not have. It is for files that
// were written for other tools; in an agentbox.yaml the same is a problem.
func (d *decoder) warn(n *yaml.Node, format string, args ...any) {
	d.cfg.Warnings = append(d.cfg.Warnings, fmt.Sprintf("%s:%d: %s", d.name, n.Line, agentbox.Printable(fmt.Sprintf(format, args...))))
}

// err is every problem, in the order of the file. It is nil without any. At most 20 are told, one
// line each: more are most often the consequence of one, and would push the first off the screen.
func (d *decoder) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(d.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	lines := make([]string, len(d.problems))
	for i, p := range d.problems {
		lines[i] = fmt.Sprintf("%s:%d: %s", d.name, p.line, agentbox.Printable(p.text))
	}
	const most = 20
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("%s: and %s", d.name, agentbox.Plural(len(lines)-most, "more problem")))
	}
	return agentbox.Errorf(agentbox.Invalid, "%w", errors.New(strings.Join(lines, "\n"))).WithHint("see docs/configuration.md for every key")
}

// value follows aliases and counts what is read. ok is false for a value that is absent or cannot
// be read.
func (d *decoder) value(n *yaml.Node) (v *yaml.Node, ok bool) {
	d.nodes++
	if d.nodes == maxNodes {
		d.fail(n, "too many values: the aliases of this file multiply")
	}
	if d.nodes >= maxNodes {
		return n, false
	}
	if n.Kind == yaml.AliasNode {
		if n.Alias == nil || n.Alias.Kind == yaml.AliasNode {
			d.fail(n, "an alias of an alias")
			return n, false
		}
		n = n.Alias
	}
	return n, n.Kind != yaml.ScalarNode || n.ShortTag() != "!!null"
}

// pairs visits the keys of a mapping in the order of the file; a key that appears twice is a
// problem. Merge keys are refused, because what they do to a key that appears twice differs between
// parsers.
func (d *decoder) pairs(n *yaml.Node, visit func(k, v *yaml.Node)) {
	n, ok := d.value(n)
	if !ok {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n, "expected keys and values, found %s", kind(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if _, ok := d.value(k); !ok && d.nodes >= maxNodes {
			return
		}
		switch first, twice := seen[k.Value]; {
		case k.Kind != yaml.ScalarNode:
			d.fail(k, "a key must be a word, not %s", kind(k))
		case k.ShortTag() == "!!merge":
			d.fail(k, "merge keys (<<) are not supported: repeat the values")
		case twice:
			d.fail(k, "key `%s` appears twice, first on line %d", agentbox.Clip(k.Value), first)
		default:
			seen[k.Value] = k.Line
			visit(k, v)
		}
	}
}

// record reads a mapping of known keys. A key whose value is empty counts as not set. That is what
// a template with empty places means by it. unknown is called for the other keys, whose values are
// not looked at.
func (d *decoder) record(n *yaml.Node, keys []key, unknown func(k *yaml.Node)) {
	d.pairs(n, func(k, v *yaml.Node) {
		i := slices.IndexFunc(keys, func(known key) bool { return known.name == k.Value })
		if i < 0 {
			unknown(k)
			return
		}
		if _, ok := d.value(v); ok {
			d.within(k.Value, func() { keys[i].read(d, v) })
		}
	})
}

// items visits the elements of a list; a single value stands for a list of one. An empty element is
// a problem, as it is most often a forgotten value.
func (d *decoder) items(n *yaml.Node, visit func(item *yaml.Node)) {
	n, ok := d.value(n)
	if !ok {
		return
	}
	if n.Kind != yaml.SequenceNode {
		visit(n)
		return
	}
	for _, item := range n.Content {
		if v, ok := d.value(item); ok {
			visit(v)
		} else if d.nodes < maxNodes {
			d.fail(item, "an element of the list is empty")
		}
	}
}

// kind names what stands at a node, for messages of what was expected instead.
func kind(n *yaml.Node) string {
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
