package agents

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
	"agentbox/policy"
	"agentbox/policy/secrets"
)

// Profile is what agentbox knows of one agent. It is valid if it comes from Parse.
type Profile struct {
	Name        string `yaml:"-"`
	Origin      Origin `yaml:"-"` // whose it is
	Description string `yaml:"description"`
	Tried       string `yaml:"tried"` // the version of the program that the profile was tried with; "" for none
	// Program is what is run, with Flags before whatever the user adds.
	Program string   `yaml:"program"`
	Flags   []string `yaml:"flags"`
	// Prompt are the arguments before a prompt that the agent is to work on alone, without a
	// terminal. An agent without them cannot do that.
	Prompt []string `yaml:"prompt"`
	// Package is the agent in the npm registry, as NAME or NAME@VERSION; "" if the image has it.
	Package string `yaml:"package"`
	// Native is where a package of the npm registry has the program as a file that runs without
	// Node.js. It is used instead of Package and Toolchain if the registry has it.
	Native Native `yaml:"native"`
	// Pip is the agent in the Python package index, as NAME or NAME==VERSION.
	Pip string `yaml:"pip"`
	// Toolchain are the versions of the tools that the agent itself needs, by name.
	Toolchain map[string]string `yaml:"toolchain"`
	Env       map[string]string `yaml:"env"`
	// Tools are flags by which the agent connects to the host's tool servers. They are used if the
	// project has any.
	Tools    []string `yaml:"tools"`
	Hosts    []string `yaml:"hosts"`    // rules: what the agent may reach besides
	Private  []string `yaml:"private"`  // HOST[:PORT] at private addresses that it may reach
	Secrets  []Secret `yaml:"secrets"`  // any one of them is enough; all that there are are used
	Sessions []string `yaml:"sessions"` // directories below ~/ with the agent's conversations
	// Save and Restore are commands of a shell in the box, as its user in the workspace, for an agent
	// that keeps its conversations in a database: Save writes them as files below Sessions before
	// these are kept, Restore takes them in once they are back.
	Save    string `yaml:"save"`
	Restore string `yaml:"restore"`
}

// Native is a file of a package of the npm registry. {arch} in Package stands for x64 or arm64.
type Native struct {
	Package string `yaml:"package"`
	File    string `yaml:"file"` // slash-separated; its last part is the program
}

// Secret is a credential that an agent sends. The box has a placeholder in the variable Name.
// Header and As, if set, say in which header of a request the value goes, and in which form.
type Secret struct {
	Name   string      `yaml:"name"`
	To     []string    `yaml:"to"` // rules
	Header string      `yaml:"header"`
	As     policy.Form `yaml:"as"`
	// Env are other variables of the host that may have it, tried in order after Name.
	Env []string `yaml:"env"`
	// From is where the agent's own login keeps a token on the host, as file:~/PATH#KEY.KEY. It is
	// used if the variable Name is not set.
	From string `yaml:"from"`
}

// Reference is From for a user with this home, which is absolute; ok is false if From is empty.
// Whether the file exists is not checked.
func (s Secret) Reference(home string) (r secrets.Reference, ok bool) {
	rest, ok := strings.CutPrefix(s.From, homePrefix)
	if !ok {
		return r, false
	}
	return secrets.Reference{Kind: secrets.File, Target: filepath.Join(home, rest)}, true
}

// homePrefix begins every From: people's tokens are below their homes.
const homePrefix = "file:~/"

const (
	// maxProfile bounds a file, in bytes.
	maxProfile = 64 << 10
	maxList    = 64      // entries of each list
	maxScript  = 4 << 10 // bytes of Save and Restore
)

// Valid names: they become names of files, arguments and variables.
var (
	agentName   = agentbox.Pattern(`^[a-z][a-z0-9-]{0,31}$`)
	programName = agentbox.Pattern(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)
	tokenFile   = agentbox.Pattern(`^(file:~/[^#\x00-\x1f]{1,200}#[A-Za-z0-9_.-]{1,128})?$`)
	variable    = agentbox.Pattern(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// Parse reads a profile, of at most maxProfile bytes. The error lists everything that is wrong with
// it, and has no code: the caller knows whose profile it is. Unknown keys are an error, as a
// misspelled one would silently ask for less, or more, than was meant.
func Parse(r io.Reader, name string) (Profile, error) {
	p := Profile{Name: name}
	b, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	switch {
	case err != nil:
		return p, err
	case len(b) > maxProfile:
		return p, fmt.Errorf("it is larger than %d KiB", maxProfile>>10)
	case !agentName().MatchString(name):
		return p, fmt.Errorf("%q is no name of an agent", name)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil {
		return p, errors.New(strings.ReplaceAll(err.Error(), "\n", ";"))
	}
	return p, p.check()
}

// Command is the agent's command with the user's own arguments.
func (p Profile) Command(args []string) []string {
	return slices.Concat([]string{p.Program}, p.Flags, args)
}

// PromptCommand is the agent's command for working on a prompt alone. The error is Invalid if the
// agent cannot do that, or would misunderstand the prompt.
func (p Profile) PromptCommand(prompt string) ([]string, error) {
	switch {
	case len(p.Prompt) == 0:
		return nil, agentbox.Errorf(agentbox.Invalid, "the profile of agent %s does not say how it works on a prompt alone", p.Name).
			WithHint("prompt: in its profile does: what comes before the prompt, as prompt: [-p]")
	case strings.TrimSpace(prompt) == "":
		return nil, agentbox.Errorf(agentbox.Invalid, "no prompt given").WithHint("agentbox task submit --agent %s PROMPT", p.Name)
	case strings.HasPrefix(prompt, "-"):
		return nil, agentbox.Errorf(agentbox.Invalid, "%s would take a prompt that begins with - for a flag", p.Name).WithHint("begin it with a word")
	}
	return slices.Concat(p.Command(p.Prompt), []string{prompt}), nil
}

// HostNames are the hosts that the agent has to reach, as names or *.NAME.
func (p Profile) HostNames() []string {
	var out []string
	for _, text := range slices.Concat(p.Hosts, p.Private) {
		if r, err := policy.ParseRule(text); err == nil && r.Host != "" {
			out = append(out, r.Host)
		}
	}
	return out
}

// check returns everything that is wrong with a profile, joined into one error.
func (p Profile) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !programName().MatchString(p.Program) {
		bad("program %q is not the name of a program that the box has; a script of the repository is program: sh and flags: [./fix.sh]", p.Program)
	}
	if _, err := p.Needs(); err != nil {
		bad("%w", err)
	}
	for _, l := range []int{len(p.Flags), len(p.Prompt), len(p.Tools), len(p.Env), len(p.Hosts), len(p.Private), len(p.Secrets), len(p.Sessions)} {
		if l > maxList {
			bad("a list has %d entries: %d at most", l, maxList)
		}
	}
	for name := range p.Env {
		if !variable().MatchString(name) {
			bad("env: %q is not the name of a variable", name)
		}
	}
	for _, dir := range p.Sessions {
		// What lies beside the conversations, directly below, is settings and credentials.
		if rest, ok := strings.CutPrefix(dir, "~/"); !ok || !fs.ValidPath(rest) || !strings.Contains(rest, "/") {
			bad("sessions: %q is not a directory of conversations, as ~/.agent/sessions", dir)
		}
	}
	for _, script := range []string{p.Save, p.Restore} {
		if len(script) > maxScript {
			bad("save and restore are of %d bytes at most", maxScript)
		}
	}
	p.checkRules(bad)
	return errors.Join(errs...)
}

// checkRules parses every rule, and reports errors to bad.
func (p Profile) checkRules(bad func(format string, args ...any)) {
	parse := func(where string, rules []string) {
		for _, rule := range rules {
			if _, err := policy.ParseRule(rule); err != nil {
				bad("%s: %w", where, err)
			}
		}
	}
	parse("hosts", p.Hosts)
	for _, s := range p.Secrets {
		if !variable().MatchString(s.Name) || len(s.To) == 0 {
			bad("secrets: %q needs a name and where it may be sent", s.Name)
		}
		if !tokenFile().MatchString(s.From) || strings.Contains(s.From, "/../") {
			bad("secrets: %s: from %q is not as file:~/.agent/auth.json#tokens.access", s.Name, s.From)
		}
		for _, name := range s.Env {
			if !variable().MatchString(name) {
				bad("secrets: %s: env: %q is not the name of a variable", s.Name, name)
			}
		}
		parse("secrets: "+s.Name, s.To)
	}
}

// Needs are the tools of the agent with the agent itself, sorted. The profile is named as the file
// that asks for them.
func (p Profile) Needs() (toolchain.Needs, error) {
	var needs toolchain.Needs
	var failed error
	ask := func(tool toolchain.Tool, version string) {
		n, err := toolchain.NewNeed(tool, version, "agent "+p.Name)
		needs, failed = append(needs, n), cmp.Or(failed, err)
	}
	for tool, version := range p.Toolchain {
		ask(toolchain.Tool(tool), version)
	}
	if arch := toolchain.NPMArchitecture(); p.Native.Package != "" && arch != "" {
		ask(toolchain.Native, strings.ReplaceAll(p.Native.Package, "{arch}", arch)+" "+p.Native.File)
	}
	if p.Package != "" {
		ask(toolchain.Package, p.Package)
	}
	if p.Pip != "" {
		ask(toolchain.PipPackage, p.Pip)
	}
	if failed != nil {
		return nil, failed
	}
	needs.Sort()
	return needs, nil
}
