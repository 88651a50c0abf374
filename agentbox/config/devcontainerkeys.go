package config

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"al.essio.dev/pkg/shellescape"
	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/yamlfile"
)

// image reads the image. Without a name that means something here, the box has its own.
func (d *devcontainerDecoder) image(n *yaml.Node) {
	if s, ok := d.text(n); ok && s != "" {
		set(d.decoder, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Line: n.Line, Value: s}, &d.cfg.Image, imageName)
	}
}

func (d *devcontainerDecoder) setup(n *yaml.Node) { d.commands(n, &d.cfg.Setup) }
func (d *devcontainerDecoder) start(n *yaml.Node) { d.commands(n, &d.cfg.Start) }

// commands reads a lifecycle command: a string for the shell, a list of arguments, or a mapping
// of named commands in either form. The specification runs named commands in parallel; boxes run
// them one after the other, in file order, in the workspace folder.
func (d *devcontainerDecoder) commands(n *yaml.Node, to *[]string) {
	add := func(n *yaml.Node) {
		line := d.command(n)
		switch {
		case strings.TrimSpace(line) == "":
			return
		case d.folder != "":
			line = "cd " + shellescape.Quote(d.folder) + " || exit\n" + line
		}
		*to = append(*to, line)
	}
	if n.Kind != yaml.MappingNode {
		add(n)
		return
	}
	d.Pairs(n, func(_, v *yaml.Node) { add(v) })
}

// env reads variables. It leaves out a variable whose value refers to the host, because an
// incomplete value, for example of PATH, is worse than none. Any name that a program can be given
// is valid, unlike in an agentbox.yaml.
func (d *devcontainerDecoder) env(n *yaml.Node) {
	d.Pairs(n, func(k, v *yaml.Node) {
		name := k.Value
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == '=' || unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
			d.warn(k, "variable %q is left out: that is not a name of a variable", agentbox.Clip(name))
			return
		}
		delete(d.cfg.Env, name) // null unsets a variable
		delete(d.cfg.Derived, name)
		s, ok := d.Text(v)
		if !ok {
			return
		}
		switch e := d.expand(s); {
		case e.missing != "":
			d.warn(v, "variable `%s` is left out: %s", agentbox.Clip(name), noHostEnv)
		case e.ofBox:
			if d.cfg.Derived == nil {
				d.cfg.Derived = map[string]string{}
			}
			d.cfg.Derived[name] = e.text
		default:
			d.cfg.Env[name] = e.text
		}
	})
}

// forwardPorts reads numbers and "host:port". Only ports of the box itself can be forwarded, and those
// of the other services of a Compose file are among them.
func (d *devcontainerDecoder) forwardPorts(n *yaml.Node) {
	d.Items(n, func(item *yaml.Node) {
		s, ok := d.text(item)
		host, port, two := strings.Cut(s, ":")
		switch {
		case !ok:
		case two && host != "localhost" && host != "127.0.0.1" && d.compose.from == nil:
			d.warn(item, "port %s is ignored: only ports of the box itself are forwarded", agentbox.Clip(s))
		case two:
			d.port(item, port)
		default:
			d.port(item, s)
		}
	})
}

// appPort reads what a container engine would publish: PORT, HOST:PORT or ADDRESS:HOST:PORT.
func (d *devcontainerDecoder) appPort(n *yaml.Node) {
	d.Items(n, func(item *yaml.Node) {
		if s, ok := d.text(item); ok {
			parts := strings.Split(s, ":")
			d.port(item, strings.Join(parts[max(0, len(parts)-2):], ":"))
		}
	})
}

// port forwards a port of the box. A low port of this machine would need approval, so another one
// stands in for it.
func (d *devcontainerDecoder) port(n *yaml.Node, s string) {
	const low, standIn = 1024, 8000
	p, err := parsePort(s)
	if err != nil {
		d.warn(n, "`%s`: %v", d.key, err)
		return
	}
	if p.Host < low {
		d.warn(n, "port %d of the box is port %d here: those below %d need rights", p.Box, p.Host+standIn, low)
		p.Host += standIn
	}
	taken := slices.ContainsFunc(d.cfg.Ports, func(have agentbox.ConfiguredPort) bool { return have.Box == p.Box || have.Host == p.Host })
	if !taken {
		d.cfg.Ports = append(d.cfg.Ports, p)
	}
}

// user reads the user of commands: a name, or the number of root or of the box's own user.
func (d *devcontainerDecoder) user(n *yaml.Node) {
	s, ok := d.text(n)
	name, _, _ := strings.Cut(s, ":") // a group does not matter
	switch {
	case !ok || name == "":
		return
	case name == "0":
		name = "root"
	case name == "1000":
		d.cfg.User, d.asUser = "", nil
		return
	case !userName().MatchString(name):
		d.warn(n, "`%s` is ignored: %q is not a user name: commands run as the box's own user", d.key, agentbox.Clip(name))
		return
	}
	d.cfg.User, d.asUser = name, n
}

// ownUser drops a user that only the file's own image would have, when a box has another.
func (d *devcontainerDecoder) ownUser() {
	if d.cfg.User == "" || d.cfg.User == "root" || d.cfg.Build != nil || d.cfg.Image != "" && d.cfg.Suite() == "" {
		return
	}
	d.warn(d.asUser, "user %s is ignored: the box's image does not have it: commands run as the box's own user", d.cfg.User)
	d.cfg.User = ""
}

func (d *devcontainerDecoder) userEnvProbe(n *yaml.Node) {
	if s, ok := d.Text(n); ok && s != "none" {
		d.approximate(n, "")
	}
}

func (d *devcontainerDecoder) privileged(n *yaml.Node) {
	if asks(n) {
		d.approximate(n, "")
	}
}

func (d *devcontainerDecoder) overrideCommand(n *yaml.Node) {
	if n.Value == "false" {
		d.approximate(n, "")
	}
}

func (d *devcontainerDecoder) shutdownAction(n *yaml.Node) {
	if s, ok := d.Text(n); ok && s != "none" {
		d.approximate(n, "")
	}
}

// grantedArgs are arguments of docker run that change nothing in a box: root may do these things.
var grantedArgs = []string{"--cap-add", "--security-opt", "--init", "--name", "--rm"}

// runArgs warns of arguments for a container engine, except those that ask for what a box has.
func (d *devcontainerDecoder) runArgs(n *yaml.Node) {
	var others []string
	skip := false
	d.Items(n, func(item *yaml.Node) {
		s, ok := d.Text(item)
		option, _, two := strings.Cut(s, "=")
		granted := slices.Contains(grantedArgs, option)
		switch {
		case !ok:
		case skip && !strings.HasPrefix(s, "-"): // the value of the option before
		case !granted:
			others = append(others, s)
		}
		skip = granted && !two
	})
	if len(others) > 0 {
		d.approximate(n, agentbox.Clip(strings.Join(others, " "))+" is ignored: ")
	}
}

// hostRequirements reads the least that the machine must have: a box gets that, or more.
func (d *devcontainerDecoder) hostRequirements(n *yaml.Node) {
	r := &d.cfg.Least
	d.record(n, []key{
		{"cpus", func(_ *decoder, n *yaml.Node) {
			if v, ok := d.text(n); ok {
				cpus, err := strconv.ParseFloat(v, 64)
				if err != nil || !(cpus >= 0) {
					d.warn(n, "`hostRequirements.cpus` is ignored: %q is not a number", agentbox.Clip(v))
					return
				}
				r.CPUs = int(math.Ceil(min(cpus, agentbox.MaxCPUs)))
			}
		}},
		{"memory", func(_ *decoder, n *yaml.Node) { r.Memory = min(d.bytes(n, "memory"), agentbox.MaxMemory) }},
		{"storage", func(_ *decoder, n *yaml.Node) {
			d.cfg.Disk = max(d.cfg.Disk, min(d.bytes(n, "storage"), agentbox.MaxDisk))
		}},
		{"gpu", func(_ *decoder, n *yaml.Node) {
			if asks(n) && n.Value != "optional" {
				d.warn(n, "`hostRequirements.gpu` is ignored: a box has no GPU")
			}
		}},
	}, func(k *yaml.Node) {
		d.warn(k, "unknown key `hostRequirements.%s` is ignored%s", agentbox.Clip(k.Value), yamlfile.Nearest(k.Value, []string{"cpus", "memory", "storage", "gpu"}))
	})
}

// requirement is a size as hostRequirements has it: whole bytes, or in powers of 1024 by another
// unit, which is lower case.
var requirement = agentbox.Pattern(`^([0-9]+)([tgmk]b)?$`)

// bytes reads such a size, rounded up to a whole MiB. A size that the format's own tool does not
// understand counts as 0 there; here it has a line.
func (d *devcontainerDecoder) bytes(n *yaml.Node, key string) int64 {
	s, ok := d.text(n)
	if !ok {
		return 0
	}
	m := requirement().FindStringSubmatch(s)
	if m == nil {
		d.warn(n, "`hostRequirements.%s` is ignored: %s", key, fmt.Sprintf("%q is not a size: write it as 8gb", agentbox.Clip(s)))
		return 0
	}
	unit := map[string]uint64{"": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}[m[2]]
	const grain = 1 << 20
	whole, err := strconv.ParseUint(m[1], 10, 64)
	high, size := bits.Mul64(whole, unit)
	if err != nil || high != 0 || size > math.MaxInt64-grain {
		return math.MaxInt64 / grain * grain
	}
	return int64((size + grain - 1) / grain * grain)
}
