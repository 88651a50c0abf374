package registries

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"net/url"
	"slices"
	"strings"
	"sync"

	"agentbox/agentbox"
	"agentbox/policy"
)

// Machine is where to look. Only Root and Run are required; Run may be called concurrently.
type Machine struct {
	Root fs.FS // of the host's file system
	// Home is the user's home relative to Root, without the leading slash.
	Home      string
	Directory string            // of the repository on the host; "" for none
	Env       map[string]string // of the user: variables that configure tools
	// Run runs a tool and returns its standard output. The error is context.DeadlineExceeded if it
	// takes too long, ErrNoTool if this machine has no such tool.
	Run func(ctx context.Context, argv ...string) (string, error)
	// Answers has, by question, the output in a clean box of tools that this machine does not have;
	// see Questions.
	Answers map[string]string
	// Get asks an index of this machine's configuration. Its errors are like Run's; nil asks none.
	Get func(ctx context.Context, url, accept string) ([]byte, error)
}

// Found is one host with its origin. agentbox/project keeps it as JSON.
type Found struct {
	Rule policy.Rule `json:"rule"`
	// From is ECOSYSTEM: WHERE, such as "npm: registry" or "apt: /etc/apt/sources.list", for
	// people, and for Ecosystem.
	From string `json:"from"`
	// Variable and Value, if set, configure the same tool in a box to use the same registry.
	Variable string `json:"variable,omitempty"`
	Value    string `json:"value,omitempty"`
}

// Equal reports whether both say the same.
func (f Found) Equal(g Found) bool {
	return f.Rule.String() == g.Rule.String() && f.From == g.From && f.Variable == g.Variable && f.Value == g.Value
}

// FromFiles lists the hosts in files and variables of the machine, in a fixed order. It is fast, as
// it runs nothing.
func FromFiles(m Machine) []Found {
	var l collector
	l.apt(m)
	l.goProxy(m.Env["GOPROXY"], m.Env["GOSUMDB"]) // of a machine without the tool
	l.npmrc(m)
	l.pipEnv(m)
	l.cargo(m)
	return l.found
}

// FromTools lists the hosts that the tools themselves name, for what their files do not say, and
// those on which all their indexes keep files. What is missing or fails adds nothing. answered is
// false if one was too slow, so that the result should not be kept. It takes a second or two: the
// tools are asked concurrently, the indexes after them.
func FromTools(ctx context.Context, m Machine) (found []Found, answered bool) {
	lists := make([]collector, 5)
	var wg sync.WaitGroup
	wg.Go(func() { lists[0].golang(ctx, m) })
	wg.Go(func() { lists[1].npm(ctx, m) })
	wg.Go(func() { lists[2].pip(ctx, m) })
	wg.Wait()
	lists[4].yarn(m)
	lists[4].cargoDefault(m)
	var inFiles collector
	inFiles.npmrc(m)
	inFiles.pipEnv(m)
	inFiles.cargo(m)
	lists[3].addLinkedHosts(ctx, m, slices.Concat(lists[1].urlsFound, lists[2].urlsFound, lists[4].urlsFound, inFiles.urlsFound))
	answered = true
	for _, l := range lists {
		found = append(found, l.found...)
		answered = answered && !l.timedOut
	}
	return found, answered
}

// Variables are what tells the tools of a box to use the registries of this machine, by name of the
// variable. Of two that were found for one the first counts. Users and passwords in a value are left
// out: that is what secrets are for. This machine's own loopback has another name in a box.
func Variables(found []Found) map[string]string {
	env := map[string]string{}
	for _, f := range found {
		if _, set := env[f.Variable]; f.Variable != "" && !set {
			if value := userinfo().ReplaceAllString(f.Value, "://"); !strings.Contains(value, "@") {
				env[f.Variable] = RewriteLoopback(value)
			}
		}
	}
	// Yarn since version 2 reads nothing of npm's, and all of them serve the same packages.
	if registry := env[npmVariable]; registry != "" && env[yarnVariable] == "" {
		env[yarnVariable] = registry
	}
	return env
}

// userinfo matches a user and a password at the start of a URL, up to the last @ before its path.
var userinfo = agentbox.Pattern(`://[^/\s,|]*@`)

// loopback matches the start of a URL that leads to this machine itself.
var loopback = agentbox.Pattern(`://(localhost|127\.[0-9.]+|\[::1\])([:/,;"\s]|$)`)

// RewriteLoopback rewrites the URLs in a text that lead to this machine's loopback.
func RewriteLoopback(text string) string {
	return loopback().ReplaceAllString(text, "://"+policy.HostName+"$2")
}

// Layer makes the preset's layer of what was found, each rule once, with its first origin as its
// note.
func Layer(found []Found) policy.Layer {
	var l policy.Layer
	seen := map[string]bool{}
	for _, f := range found {
		if seen[f.Rule.String()] {
			continue
		}
		seen[f.Rule.String()] = true
		l.Allow, l.Notes = append(l.Allow, f.Rule), append(l.Notes, f.From)
	}
	return l
}

// collector collects what is found. Each goroutine of FromTools has its own.
type collector struct {
	found     []Found
	urlsFound []mentionedURL // the URLs that were found
	timedOut  bool           // a tool, or an index, has not answered in its time
}

// addURL adds the host of a URL. Without a valid host, it adds nothing.
func (c *collector) addURL(from, s string) {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil || u.Hostname() == "" {
		return
	}
	name, addr, err := policy.CanonicalHost(u.Hostname())
	if err != nil {
		return
	}
	host := name
	if addr.IsValid() {
		host = "[" + addr.String() + "]"
	}
	c.addRule(from, host+portOf(u))
}

// addRule adds a rule, once for each origin. An invalid one adds nothing.
func (c *collector) addRule(from, s string) {
	r, err := policy.ParseRule(s)
	if err != nil || slices.ContainsFunc(c.found, func(f Found) bool { return f.Rule.String() == r.String() && f.From == from }) {
		return
	}
	c.found = append(c.found, Found{Rule: r, From: from})
}

// portOf is the port of a rule for a URL, with its colon: none for the ports of the web, which a
// rule without a port covers.
func portOf(u *url.URL) string {
	switch port := cmp.Or(u.Port(), usualPorts[u.Scheme]); port {
	case "", "80", "443":
		return ""
	default:
		return ":" + port
	}
}

// usualPorts are the ports of git's other schemes.
var usualPorts = map[string]string{"ssh": "22", "git+ssh": "22", "git": "9418"}

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 1 << 20

// lines visits the trimmed lines of files below the root, each with the absolute path of its file.
// Files that cannot be read, or are too large for a configuration, have none.
func (m Machine) lines(paths []string) iter.Seq2[string, string] {
	return func(yield func(name, line string) bool) {
		for _, name := range paths {
			name = strings.TrimPrefix(name, "/")
			b, err := fs.ReadFile(m.Root, name)
			if err != nil || len(b) > maxConfig {
				continue
			}
			for line := range strings.Lines(string(b)) {
				if !yield("/"+name, strings.TrimSpace(line)) {
					return
				}
			}
		}
	}
}

// glob returns the files that match patterns, those of each sorted by name.
func (m Machine) glob(patterns ...string) (paths []string) {
	for _, pattern := range patterns {
		found, _ := fs.Glob(m.Root, pattern) // the patterns are ours
		paths = append(paths, found...)
	}
	return paths
}

// output is the standard output of a tool, "" when it fails or times out. For a missing tool, it is
// the output of the same tool in a clean box, if that was asked.
func (c *collector) output(ctx context.Context, m Machine, argv ...string) string {
	out, err := m.Run(ctx, argv...)
	if err != nil {
		c.timedOut = c.timedOut || isTimeout(err)
		if !errors.Is(err, ErrNoTool) {
			return ""
		}
		out = m.Answers[strings.Join(argv, " ")]
	}
	return strings.TrimSpace(out)
}

// isTimeout distinguishes an answer that did not come in time from other errors.
func isTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// anyURL finds URLs in text of any form: sources.list, TOML, the output of tools.
var anyURL = agentbox.Pattern(`[a-z][a-z+]*://[^\s'"\]>;,|)]+`)

// addURLs adds every URL in a text, and remembers it for addLinkedHosts.
func (c *collector) addURLs(from, text string) {
	for _, u := range anyURL().FindAllString(text, -1) {
		c.addURL(from, u)
		c.urlsFound = append(c.urlsFound, mentionedURL{from, u})
	}
}

// addSetting adds every URL in a text, and gives the first host that was found the variable that
// configures it. A text without a host has no effect.
func (c *collector) addSetting(from, text, variable, value string) {
	n := len(c.found)
	c.addURLs(from, text)
	if value = strings.TrimSpace(value); value != "" && len(c.found) > n {
		c.found[n].Variable, c.found[n].Value = variable, value
	}
}
