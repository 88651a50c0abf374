package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/yamlfile"
)

// Presets, from the narrowest to the widest. They are values in agentbox.yaml, in policy files
// and on the command line.
const (
	Offline  = "offline"  // nothing, whatever else is allowed
	Strict   = "strict"   // what is listed
	Balanced = "balanced" // and the package registries and code hosts this machine is configured with
	Open     = "open"     // and everything public
)

// Presets lists them all in that order.
var Presets = []string{Offline, Strict, Balanced, Open}

// Breadth orders presets: a wider one allows more. It is -1 for an unknown one.
func Breadth(preset string) int { return slices.Index(Presets, preset) }

// File is a policy as written by an organisation, a user, or a repository. The zero File says
// nothing.
type File struct {
	// Preset is "" when the file names none; its reader decides what that means.
	Preset string
	Allow  []Rule
	Deny   []Rule
	// Private rules also allow private addresses. They must name their hosts: * alone is refused.
	Private []Rule
	// HasAllow and HasPrivate: the key is there, if only with an empty list. In an organisation's
	// file, it bounds what others may allow.
	HasAllow, HasPrivate bool
}

// maxFile bounds a policy file, in bytes; maxRules the rules of a list.
const (
	maxFile  = 1 << 20
	maxRules = 10_000
)

// ParseFile parses a policy file (docs/policy.md has its keys); name is its name in error messages.
// All problems are reported together, one a line, at most twenty, as one *agentbox.Error of code
// Invalid. An empty file is the zero File. Repositories write such files too, so quotes from them
// are clipped and printable.
func ParseFile(name string, data []byte) (File, error) {
	if len(data) > maxFile {
		return File{}, agentbox.Errorf(agentbox.Invalid, "%s is larger than 1 MiB: that is no policy", name)
	}
	var f File
	r := &yamlfile.Reader{Name: name}
	r.Document(data, func(root *yaml.Node) {
		r.Pairs(root, func(k, v *yaml.Node) {
			if !slices.Contains(fileKeys, k.Value) {
				r.Fail(k, "unknown key `%s`%s", agentbox.Clip(k.Value), yamlfile.Suggest(k.Value, fileKeys))
				return
			}
			r.Within(k.Value, func() { f.read(r, k.Value, v) })
		})
	})
	return f, r.Err("docs/policy.md has every key, and how rules are written")
}

var fileKeys = []string{"preset", "allow", "deny", "private"}

// read parses the value of one key. A key without a value still counts: see HasAllow.
func (f *File) read(r *yamlfile.Reader, key string, n *yaml.Node) {
	switch key {
	case "preset":
		if n.Kind != yaml.ScalarNode || Breadth(n.Value) < 0 {
			r.Fail(n, "unknown value `%s`%s", agentbox.Clip(n.Value), yamlfile.Suggest(n.Value, Presets))
			return
		}
		f.Preset = n.Value
	case "allow":
		f.Allow, f.HasAllow = readRules(r, key, n), true
	case "deny":
		f.Deny = readRules(r, key, n)
	case "private":
		f.Private, f.HasPrivate = readRules(r, key, n), true
	}
}

func readRules(r *yamlfile.Reader, key string, n *yaml.Node) []Rule {
	items := []*yaml.Node{n}
	switch {
	case n.Kind == yaml.SequenceNode:
		items = n.Content
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		return nil
	}
	if len(items) > maxRules {
		r.Fail(n, "more than %d rules", maxRules)
		return nil
	}
	var list []Rule
	for _, item := range items {
		if item.Kind != yaml.ScalarNode || item.ShortTag() == "!!null" {
			r.Fail(item, "a rule is one line of text, as example.com or \"GET https://example.com/v1/**\"")
			continue
		}
		rule, err := ParseRule(item.Value)
		switch {
		case err != nil:
			r.Fail(item, "%v", err)
		case key == "private" && rule.Host == "*":
			r.Fail(item, "name the hosts: * would open every private network this machine reaches")
		default:
			list = append(list, rule)
		}
	}
	return list
}

// Encode writes the file as ParseFile reads it, after a comment, which may have several lines.
// Rules keep their order, in the form of Rule.String; anything besides the keys is lost.
func (f File) Encode(comment string) []byte {
	var b bytes.Buffer
	for line := range strings.Lines(comment) {
		fmt.Fprintf(&b, "# %s\n", strings.TrimRight(line, "\n"))
	}
	if f.Preset != "" {
		fmt.Fprintf(&b, "preset: %s\n", f.Preset)
	}
	list := func(key string, rules []Rule, always bool) {
		if len(rules) == 0 {
			if always {
				fmt.Fprintf(&b, "%s: []\n", key)
			}
			return
		}
		fmt.Fprintf(&b, "%s:\n", key)
		for _, r := range rules {
			fmt.Fprintf(&b, "  - %q\n", r.String())
		}
	}
	list("allow", f.Allow, f.HasAllow)
	list("deny", f.Deny, false)
	list("private", f.Private, f.HasPrivate)
	return b.Bytes()
}

// Change is one line of a plan: what a new version of a policy, or of what a repository asks of
// this host, adds or removes. People approve it, so it has to be complete.
type Change struct {
	Add    bool   `json:"add"`    // else it goes
	Kind   string `json:"kind"`   // preset, allow, deny, private; agent; include, kernel, image, isolation, port of this host
	Rule   string `json:"rule"`   // or the preset
	Widens bool   `json:"widens"` // more is allowed by it than before
}

// AgentChange is the Kind of a change that takes effect only when that agent is run.
const AgentChange = "agent"

// CheckChange is the Kind of a change that takes effect only when a task's result is checked.
const CheckChange = "check"

// Host reports whether a change is about this host rather than about what boxes reach. Unknown
// kinds count as the former, which is more dangerous.
func (c Change) Host() bool {
	switch c.Kind {
	case "preset", "allow", "deny", "private", AgentChange, CheckChange:
		return false
	}
	return true
}

// String is the change as people see it.
func (c Change) String() string {
	sign := "-"
	if c.Add {
		sign = "+"
	}
	return sign + " " + c.Kind + " " + c.Rule
}

// Plan lists the changes between two files of one source, key by key, removals before additions.
// def is the preset of a file that names none. Rules are compared as text, so two that cover the
// same in other words count as a change.
func Plan(from, to File, def string) []Change {
	var list []Change
	if a, b := cmp.Or(from.Preset, def), cmp.Or(to.Preset, def); a != b {
		wider := Breadth(b) > Breadth(a)
		list = append(list, Change{false, "preset", a, false}, Change{true, "preset", b, wider})
	}
	diff := func(what string, from, to []Rule, adding bool) {
		for _, r := range missing(from, to) {
			list = append(list, Change{false, what, r, !adding})
		}
		for _, r := range missing(to, from) {
			list = append(list, Change{true, what, r, adding})
		}
	}
	diff("allow", from.Allow, to.Allow, true)
	diff("deny", from.Deny, to.Deny, false)
	diff("private", from.Private, to.Private, true)
	return list
}

// missing returns the rules of list that others lacks, as text, each once.
func missing(list, others []Rule) []string {
	have := map[string]bool{}
	for _, r := range others {
		have[r.String()] = true
	}
	var out []string
	for _, r := range list {
		if s := r.String(); !have[s] {
			have[s] = true
			out = append(out, s)
		}
	}
	return out
}

// IsWider reports whether a plan allows anything that was not allowed before.
func IsWider(plan []Change) bool {
	return slices.ContainsFunc(plan, func(c Change) bool { return c.Widens })
}
