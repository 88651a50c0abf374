package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"agentbox/agentbox"

	"go.yaml.in/yaml/v3"
)

// services reads the mapping of services, whose order is the start order. A name must be one
// plain word, because it names a control group in the box and is an argument of commands.
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

// service reads one service. Only `run` is required. Its absence is reported only if the service
// has no other problem, because a misspelled `run` would otherwise be reported twice.
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

// env adds variables to a map. A key without a value is an error, not an empty variable: in YAML
// it is most often forgotten or indented wrongly.
func (d *decoder) env(n *yaml.Node, to map[string]string) {
	d.variables(n, func(name string, v *yaml.Node) {
		if _, ok := d.Value(v); !ok {
			d.Fail(v, "variable `%s` has no value: write \"\" for an empty one", name)
		} else if s, ok := d.Text(v); ok {
			to[name] = s
		}
	})
}

// variables calls visit for each entry of a mapping whose keys are variable names.
func (d *decoder) variables(n *yaml.Node, visit func(name string, v *yaml.Node)) {
	d.Pairs(n, func(k, v *yaml.Node) {
		if !envName().MatchString(k.Value) {
			d.Fail(k, "%q is not the name of a variable", agentbox.Clip(k.Value))
			return
		}
		visit(k.Value, v)
	})
}

// ports reads ports of the box. It refuses two that use the same host port; one box port may
// have several host ports.
func (d *decoder) ports(n *yaml.Node) {
	host, box := map[int]bool{}, map[int]bool{}
	d.Items(n, func(item *yaml.Node) {
		var p agentbox.ConfiguredPort
		if !set(d, item, &p, parsePort) {
			return
		}
		switch {
		case host[p.Host]:
			d.Fail(item, "port %d of the host is used twice", p.Host)
			return
		case box[p.Box]:
			d.Fail(item, "port %d of the box is forwarded twice", p.Box)
			return
		}
		host[p.Host], box[p.Box] = true, true
		d.cfg.Ports = append(d.cfg.Ports, p)
	})
}

// include reads host directories: "HOST[:BOX]" or {from, to}. Consent decides later whether the
// repository may have them.
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

// resolve makes the host side of an include absolute. Without a destination, the path in the box
// is the same as on the host, with ~/ standing for each home directory. It refuses / and the
// home directory of the box, because an include replaces its destination. It opens nothing: the
// directory need not exist yet.
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
	if strings.HasPrefix(from, "$") { // $GOROOT: known only when the image is made
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
