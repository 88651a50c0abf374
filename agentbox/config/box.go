package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"agentbox/agentbox"

	"go.yaml.in/yaml/v3"
)

// services reads the mapping of services; its order is the order they start in. A name becomes that
// of a control group in the box, and a word of commands, so it is one plain word.
func (d *decoder) services(n *yaml.Node) {
	d.Pairs(n, func(k, v *yaml.Node) {
		if !serviceName().MatchString(k.Value) {
			d.Fail(k, "%q is not a name for a service: use letters, digits, - and _", agentbox.Clip(k.Value))
			return
		}
		s := Service{Name: k.Value, Env: map[string]string{}}
		d.Within(s.Name, func() { d.service(v, &s) })
		d.cfg.Services = append(d.cfg.Services, s)
	})
}

// service reads one service. Only `run` is needed; that it is missing is said only where nothing
// else is wrong with the service, as a misspelled `run` would otherwise be two problems.
func (d *decoder) service(n *yaml.Node, s *Service) {
	before := d.Problems()
	d.section(n, []key{
		{"run", func(d *decoder, n *yaml.Node) { set(d, n, &s.Run, nonEmpty) }},
		{"ready", func(d *decoder, n *yaml.Node) { set(d, n, &s.Ready, nonEmpty) }},
		{"port", func(d *decoder, n *yaml.Node) { d.integer(n, &s.Port, 1, 65535) }},
		{"env", func(d *decoder, n *yaml.Node) { d.env(n, s.Env) }},
	})
	if s.Run == "" && d.Problems() == before {
		d.Fail(n, "has no `run`: give it a command")
	}
}

// env adds variables to a map. A key without a value is a mistake here and not an empty variable:
// in YAML it is most often a value that was forgotten or indented wrongly.
func (d *decoder) env(n *yaml.Node, to map[string]string) {
	d.variables(n, func(name string, v *yaml.Node) {
		if _, ok := d.Value(v); !ok {
			d.Fail(v, "variable `%s` has no value: write \"\" for an empty one", name)
		} else if s, ok := d.Text(v); ok {
			to[name] = s
		}
	})
}

// variables visits a mapping whose keys are names of variables.
func (d *decoder) variables(n *yaml.Node, visit func(name string, v *yaml.Node)) {
	d.Pairs(n, func(k, v *yaml.Node) {
		if !envName().MatchString(k.Value) {
			d.Fail(k, "%q is not the name of a variable", agentbox.Clip(k.Value))
			return
		}
		visit(k.Value, v)
	})
}

// ports reads ports of the box, and refuses two that want the same port of the host. Two ports of
// the box may not share one of the host; the same port of the box may be forwarded twice.
func (d *decoder) ports(n *yaml.Node) {
	taken := map[int]bool{}
	d.Items(n, func(item *yaml.Node) {
		var p agentbox.ConfiguredPort
		if !set(d, item, &p, parsePort) {
			return
		}
		if taken[p.Host] {
			d.Fail(item, "port %d of the host is taken twice", p.Host)
			return
		}
		taken[p.Host] = true
		d.cfg.Ports = append(d.cfg.Ports, p)
	})
}

// include reads directories of the host: "HOST[:BOX]" or {from, to}. Whether the repository may
// have them is decided later, when somebody has been asked.
func (d *decoder) include(n *yaml.Node) {
	d.Items(n, func(item *yaml.Node) {
		var from, to string
		before := d.Problems()
		if item.Kind == yaml.MappingNode {
			d.section(item, []key{
				{"from", func(d *decoder, n *yaml.Node) { set(d, n, &from, nonEmpty) }},
				{"to", func(d *decoder, n *yaml.Node) { set(d, n, &to, nonEmpty) }},
			})
		} else if s, ok := d.Text(item); ok {
			from, to, _ = strings.Cut(s, ":")
		}
		if d.Problems() > before {
			return
		}
		inc, err := d.resolve(from, to)
		if err != nil {
			d.Fail(item, "%v", err)
			return
		}
		d.cfg.Include = append(d.cfg.Include, inc)
	})
}

// resolve makes the host's side of an include absolute. Without a place in the box it goes where it
// is on the host, the home directory of one standing for that of the other. The box's / and its
// home directory itself are refused, because an include replaces what it is copied onto. Nothing is
// opened here: the directory need not exist yet.
func (d *decoder) resolve(from, to string) (Include, error) {
	if from == "" {
		return Include{}, errors.New("include names no directory of the host")
	}
	if to == "" {
		if !filepath.IsAbs(from) && !strings.HasPrefix(from, "~/") {
			return Include{}, fmt.Errorf("include %q does not say where it goes in the box: write %s:/PATH", agentbox.Clip(from), agentbox.Clip(from))
		}
		to = filepath.ToSlash(from)
	}
	to, err := boxPath(to)
	if err != nil {
		return Include{}, err
	}
	if to == "/" || to == "~" {
		return Include{}, fmt.Errorf("include cannot replace %s of the box", to)
	}
	if strings.HasPrefix(from, "$") { // $GOROOT: only who makes the image knows what it is
		return Include{From: from, To: to}, nil
	}
	switch rest, ok := strings.CutPrefix(from, "~/"); {
	case ok && d.home == "":
		return Include{}, fmt.Errorf("include %q: there is no home directory on this host", agentbox.Clip(from))
	case ok:
		from = filepath.Join(d.home, rest)
	case !filepath.IsAbs(from):
		from = filepath.Join(d.root, from)
	}
	return Include{From: filepath.Clean(from), To: to}, nil
}
