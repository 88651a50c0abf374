package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"

	"go.yaml.in/yaml/v3"
)

// topLevel lists every key of agentbox.yaml, in the order in which they are shown to users.
// docs/configuration.md describes each; a test compares the two. Values are validated as they
// are read, so later steps need not check their form.
var topLevel = []key{
	{"image", func(d *decoder, n *yaml.Node) { set(d, n, &d.cfg.Image, imageName) }},
	{"packages", func(d *decoder, n *yaml.Node) { list(d, n, &d.cfg.Packages, packageWord) }},
	{"toolchain", (*decoder).toolchain},
	{"include", (*decoder).include},
	{"kernel", func(d *decoder, n *yaml.Node) { set(d, n, &d.cfg.Kernel, nonEmpty) }},
	{"isolation", func(d *decoder, n *yaml.Node) {
		choice(d, n, &d.cfg.Isolation, append(agentbox.Isolations(), agentbox.Lima)...)
	}},
	{"machine", func(d *decoder, n *yaml.Node) {
		set(d, n, &d.cfg.Machine, func(s string) (string, error) { return s, agentbox.CheckMachine(s) })
	}},
	{"cpus", func(d *decoder, n *yaml.Node) { d.integer(n, &d.cfg.CPUs, agentbox.MinCPUs, agentbox.MaxCPUs) }},
	{"memory", func(d *decoder, n *yaml.Node) { d.size(n, &d.cfg.Memory, agentbox.MinMemory, agentbox.MaxMemory) }},
	{"disk", func(d *decoder, n *yaml.Node) { d.size(n, &d.cfg.Disk, agentbox.MinDisk, agentbox.MaxDisk) }},
	{"gpus", (*decoder).gpus},
	{"lifetime", func(d *decoder, n *yaml.Node) {
		choice(d, n, &d.cfg.Lifetime, agentbox.LifetimeTask, agentbox.LifetimeBranch, agentbox.LifetimeProject, agentbox.LifetimeDeveloper)
	}},
	{"user", func(d *decoder, n *yaml.Node) { set(d, n, &d.cfg.User, userWord) }},
	{"pool", (*decoder).pool},
	{"setup", func(d *decoder, n *yaml.Node) { list(d, n, &d.cfg.Setup, nonEmpty) }},
	{"start", func(d *decoder, n *yaml.Node) { list(d, n, &d.cfg.Start, nonEmpty) }},
	{"lockfiles", func(d *decoder, n *yaml.Node) { list(d, n, &d.cfg.Lockfiles, repoPath) }},
	{"caches", func(d *decoder, n *yaml.Node) { list(d, n, &d.cfg.Caches, boxPath) }},
	{"services", (*decoder).services},
	{"ports", (*decoder).ports},
	{"env", func(d *decoder, n *yaml.Node) { d.env(n, d.cfg.Env) }},
	{"artifacts", func(d *decoder, n *yaml.Node) { list(d, n, &d.cfg.Artifacts, repoGlob) }},
	{"checks", (*decoder).checks},
	{"limits", (*decoder).limits},
	{"policy", func(d *decoder, n *yaml.Node) { set(d, n, &d.cfg.Policy, policyName) }},
	{"bench", (*decoder).bench},
}

// Upper bounds beyond any machine we know of. Whether this host has that much is checked when
// the box starts.
const (
	maxPool        = 256
	maxGPUs        = 64
	maxConnections = 1 << 16
)

// The functions below each validate one string, for set and list. They return it in canonical
// form, or an error that is printed after "KEY: ".
func nonEmpty(s string) (string, error) {
	if strings.TrimSpace(s) == "" {
		return "", errors.New("is empty")
	}
	return s, nil
}

// imageName refuses names that apt or a registry client could take for an option or for two
// words. It does not check that the image exists.
func imageName(s string) (string, error) {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) || s[0] == '-' {
		return "", fmt.Errorf("%q is not an image: write apt:SUITE or an OCI reference", agentbox.Clip(s))
	}
	if suite, ok := strings.CutPrefix(s, "apt:"); ok && !suiteName().MatchString(suite) {
		return "", fmt.Errorf("%q is not the name of a Debian or Ubuntu suite: write apt:bookworm", agentbox.Clip(suite))
	}
	return s, nil
}

// packageWord checks a Debian package, optionally with an architecture, a version or a suite in
// apt-get's notation.
func packageWord(s string) (string, error) {
	if !packageName().MatchString(s) {
		return "", fmt.Errorf("%q is not the name of a Debian package", agentbox.Clip(s))
	}
	return s, nil
}

func userWord(s string) (string, error) {
	if !userName().MatchString(s) {
		return "", fmt.Errorf("%q is not a user name", agentbox.Clip(s))
	}
	return s, nil
}

// policyName checks a preset (any single word, so that a new one needs no change here) or a file.
func policyName(s string) (string, error) {
	if serviceName().MatchString(s) {
		return s, nil
	}
	return repoPath(s)
}

// pool reads the number of machines to keep ready, or auto. 0 keeps none.
func (d *decoder) pool(n *yaml.Node) {
	if v, _ := d.Value(n); v.Value == "auto" {
		d.cfg.Pool = PoolAuto
		return
	}
	d.integer(n, &d.cfg.Pool, 0, maxPool)
}

// gpus reads how many GPUs of the host a box may use, or all.
func (d *decoder) gpus(n *yaml.Node) {
	if v, _ := d.Value(n); v.Value == "all" {
		d.cfg.GPUs = agentbox.AllGPUs
		return
	}
	d.integer(n, &d.cfg.GPUs, 1, maxGPUs)
}

// limits reads the limits of a box. An omitted key means no limit.
func (d *decoder) limits(n *yaml.Node) {
	l := &d.cfg.Limits
	d.section(n, []key{
		{"wall", func(d *decoder, n *yaml.Node) { d.duration(n, &l.Wall) }},
		{"idle", func(d *decoder, n *yaml.Node) { d.duration(n, &l.Idle) }},
		{"cpu", func(d *decoder, n *yaml.Node) { d.duration(n, &l.CPU) }},
		{"connections", func(d *decoder, n *yaml.Node) { d.integer(n, &l.Connections, 1, maxConnections) }},
		{"bytes", func(d *decoder, n *yaml.Node) { d.size(n, &l.Bytes, 1<<20, agentbox.MaxDisk) }},
		{"cost", func(d *decoder, n *yaml.Node) { d.amount(n, &l.Cost) }},
	})
}

// maxChecks bounds what runs on this host when a task ends.
const maxChecks = 32

// checks reads the checks of tasks' results. Names must differ, since results are listed by them.
func (d *decoder) checks(n *yaml.Node) {
	d.Items(n, func(item *yaml.Node) {
		var c agentbox.Check
		before := d.Problems()
		d.section(item, []key{
			{"name", func(d *decoder, n *yaml.Node) { set(d, n, &c.Name, checkName) }},
			{"wasm", func(d *decoder, n *yaml.Node) { set(d, n, &c.Wasm, repoPath) }},
			{"args", func(d *decoder, n *yaml.Node) { list(d, n, &c.Args, argument) }},
		})
		switch {
		case d.Problems() > before:
		case c.Name == "" || c.Wasm == "":
			d.Fail(item, "needs a `name` and a module: {name: fmt, wasm: tools/gofmt.wasm}")
		case slices.ContainsFunc(d.cfg.Checks, func(other agentbox.Check) bool { return other.Name == c.Name }):
			d.Fail(item, "there are two checks named %s", c.Name)
		case len(d.cfg.Checks) == maxChecks:
			d.Fail(item, "there are more than %d checks", maxChecks)
		default:
			d.cfg.Checks = append(d.cfg.Checks, c)
		}
	})
}

func checkName(s string) (string, error) {
	if !serviceName().MatchString(s) {
		return "", fmt.Errorf("%q is not a name for a check: use letters, digits, - and _", agentbox.Clip(s))
	}
	return s, nil
}

func argument(s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", errors.New("has a NUL byte, which no argument can have")
	}
	return s, nil
}

// bench reads the commands that `agentbox bench` measures. Their names are the repository's choice,
// and become parts of the names of scenarios.
func (d *decoder) bench(n *yaml.Node) {
	d.Pairs(n, func(k, v *yaml.Node) {
		if !serviceName().MatchString(k.Value) {
			d.Fail(k, "%q is not a name for a command: use letters, digits, - and _", agentbox.Clip(k.Value))
			return
		}
		c := toolchain.Command{Name: k.Value}
		d.Within(c.Name, func() { set(d, v, &c.Run, nonEmpty) })
		d.cfg.Bench = append(d.cfg.Bench, c)
	})
}
