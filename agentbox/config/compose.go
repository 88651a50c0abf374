package config

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
)

// composed is what a devcontainer.json says of Compose files.
type composed struct {
	files   []string   // relative to the file's own directory
	from    *yaml.Node // names them; nil for none
	service string
}

// composeService is the service of a Compose file that becomes the box. A file is decoded after another
// into the same value, so that later ones win, as Compose merges them.
type composeService struct {
	Image       string       `yaml:"image"`
	Build       composeBuild `yaml:"build"`
	Environment composePairs `yaml:"environment"`
	User        string       `yaml:"user"`
	Ports       []yaml.Node  `yaml:"ports"`
	others      map[string]bool
}

// composeBuild is a build in either form: a context, or all of its parts.
type composeBuild struct {
	Context    string       `yaml:"context"`
	Dockerfile string       `yaml:"dockerfile"` // relative to the context
	Target     string       `yaml:"target"`
	Args       composePairs `yaml:"args"`
	Inline     string       `yaml:"dockerfile_inline"`
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *composeBuild) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		c.Context = n.Value
		return nil
	}
	type parts composeBuild
	return n.Decode((*parts)(c))
}

// composePairs are names and values in either form: an object, or a list of NAME=VALUE. A name without
// a value stands for one of the host's environment, which no repository reads.
type composePairs map[string]*string

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *composePairs) UnmarshalYAML(n *yaml.Node) error {
	read := map[string]*string{}
	if n.Kind == yaml.SequenceNode {
		var list []string
		if err := n.Decode(&list); err != nil {
			return err
		}
		for _, pair := range list {
			name, value, ok := strings.Cut(pair, "=")
			if read[name] = nil; ok {
				read[name] = &value
			}
		}
	} else if err := n.Decode(&read); err != nil {
		return err
	}
	if *c == nil {
		*c = composePairs{}
	}
	maps.Copy(*c, read)
	return nil
}

// quietInBox are the keys of a service that ask for nothing which a box does not have or do anyway.
var quietInBox = []string{"image", "build", "environment", "user", "ports", "depends_on", "init", "tty", "stdin_open", "restart", "container_name", "hostname",
	"labels", "privileged", "cap_add", "security_opt", "networks", "network_mode"}

func (d *devcontainerDecoder) composeFile(n *yaml.Node) {
	d.compose.from = n
	d.Items(n, func(item *yaml.Node) {
		if s, ok := d.text(item); ok {
			d.compose.files = append(d.compose.files, s)
		}
	})
}

func (d *devcontainerDecoder) composeService(n *yaml.Node) { d.compose.service, _ = d.text(n) }

// resolveCompose takes the box from the service that the file names: its image or build, environment,
// user and ports, where the devcontainer.json itself does not say otherwise. Nothing of a Compose file
// is an error: without it the box is as it would be without an image.
func (d *devcontainerDecoder) resolveCompose() {
	c := d.compose
	if c.from == nil || len(c.files) == 0 {
		return
	}
	own := path.Dir(filepath.ToSlash(d.name))
	service, err := d.readCompose(own)
	if err != nil {
		d.warn(c.from, "the Compose file is ignored: %s", agentbox.Clip(agentbox.AsError(err).Message))
		return
	}
	dir := path.Dir(path.Join(own, c.files[0])) // what paths in all of them are relative to
	d.composeImage(service, dir)
	for name, value := range service.Environment {
		if _, has := d.cfg.Env[name]; has || d.cfg.Derived[name] != "" {
			continue
		}
		switch text, missing := interpolate(value); {
		case missing != "":
			d.warn(c.from, "variable `%s` of service %s is left out: %s", agentbox.Clip(name), c.service, noHostEnv)
		case strings.ContainsAny(name, "= \t\n") || name == "":
			d.warn(c.from, "variable %q is left out: that is not a name of a variable", agentbox.Clip(name))
		default:
			d.cfg.Env[name] = text
		}
	}
	d.key = "ports"
	for i := range service.Ports {
		d.composePort(&service.Ports[i])
	}
	if user, missing := interpolate(&service.User); d.asUser == nil && user != "" && missing == "" {
		d.key = "user"
		d.user(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Line: c.from.Line, Value: user})
	}
	if others := slices.Sorted(maps.Keys(service.others)); len(others) > 0 {
		d.warn(c.from, "not started of the Compose file: %s: list programs in services of agentbox.yaml, or run docker-compose in the box", agentbox.Clip(strings.Join(others, ", ")))
	}
}

// composeImage takes the image of a service, or what makes it.
func (d *devcontainerDecoder) composeImage(service composeService, dir string) {
	c := d.compose
	text := func(s string) string {
		s, missing := interpolate(&s)
		if missing != "" {
			d.warn(c.from, "${%s} is empty in the build of service %s: %s", agentbox.Clip(missing), c.service, noHostEnv)
		}
		return s
	}
	b := service.Build
	switch {
	case b.Inline != "":
		d.warn(c.from, "the build of service %s is ignored: a Dockerfile in a Compose file is not read", c.service)
	case b.Context != "" || b.Dockerfile != "":
		context := path.Join(dir, text(b.Context))
		d.built = unresolved{Build: Build{Dockerfile: path.Join(context, text(b.Dockerfile)), Context: context, Target: text(b.Target), Args: map[string]string{}}, from: c.from, placed: true}
		if b.Dockerfile == "" {
			d.built.Dockerfile = path.Join(context, "Dockerfile")
		}
		for name, value := range b.Args {
			if s, missing := interpolate(value); missing == "" {
				d.built.Args[name] = s
			}
		}
	case service.Image != "":
		s, missing := interpolate(&service.Image)
		image, err := imageName(s)
		switch {
		case missing != "":
			d.warn(c.from, "the image of service %s is ignored: ${%s} has no value, because %s", c.service, agentbox.Clip(missing), noHostEnv)
		case err != nil:
			d.warn(c.from, "the image of service %s is ignored: %v", c.service, err)
		default:
			d.cfg.Image = image
		}
	}
}

// composePort reads a port in either form: [[ADDRESS:]HOST:]PORT[/tcp], or an object.
func (d *devcontainerDecoder) composePort(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		var p struct {
			Target    string `yaml:"target"`
			Published string `yaml:"published"`
		}
		if n.Decode(&p) == nil {
			n = &yaml.Node{Kind: yaml.ScalarNode, Value: strings.TrimPrefix(p.Published+":"+p.Target, ":")}
		}
	}
	s, missing := interpolate(&n.Value)
	if s, _, _ = strings.Cut(s, "/"); missing == "" && n.Kind == yaml.ScalarNode {
		d.appPort(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Line: d.compose.from.Line, Value: s})
	}
}

// readCompose reads the service from all files, in their order.
func (d *devcontainerDecoder) readCompose(own string) (service composeService, err error) {
	service.others = map[string]bool{}
	found, ignored := false, map[string]bool{}
	for _, name := range d.compose.files {
		data, err := d.readInRepository(path.Join(own, name))
		if err != nil {
			return service, err
		}
		var file struct {
			Services map[string]yaml.Node `yaml:"services"`
			Include  yaml.Node            `yaml:"include"`
		}
		if err := yaml.Unmarshal(data, &file); err != nil {
			return service, fmt.Errorf("%s: %w", name, err)
		}
		if !file.Include.IsZero() {
			ignored["include"] = true
		}
		for key, n := range file.Services {
			if key != d.compose.service {
				service.others[agentbox.Printable(key)] = true
				continue
			}
			found = true
			var keys map[string]yaml.Node
			if err := n.Decode(&service); err != nil {
				return service, fmt.Errorf("service %s of %s: %w", key, name, err)
			}
			_ = n.Decode(&keys) // it is an object: it was read a moment ago
			for k := range keys {
				if !slices.Contains(quietInBox, k) && !strings.HasPrefix(k, "x-") {
					ignored[agentbox.Printable(k)] = true
				}
			}
		}
	}
	if !found {
		return service, agentbox.Errorf(agentbox.Invalid, "it has no service %q", agentbox.Clip(d.compose.service))
	}
	if len(ignored) > 0 {
		d.warn(d.compose.from, "of service %s is ignored: %s", d.compose.service, agentbox.Clip(strings.Join(slices.Sorted(maps.Keys(ignored)), ", ")))
	}
	return service, nil
}

// readInRepository reads a file that a configuration names, which no link leads out of the repository.
func (d *devcontainerDecoder) readInRepository(name string) ([]byte, error) {
	f, err := os.OpenInRoot(d.root, filepath.FromSlash(name))
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "cannot read %s: %w", agentbox.Clip(name), err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, agentbox.Errorf(agentbox.Invalid, "%s is not a file of at most 1 MiB", agentbox.Clip(name))
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// ofCompose matches a variable of a Compose file. Its default may have variables itself, so inner ones
// are replaced first.
var ofCompose = agentbox.Pattern(`\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?+])([^}$]*))?\})`)

// maxNested bounds how deep the variables of a Compose file are in each other.
const maxNested = 8

// interpolate replaces the variables of a value. All are the host's, so none is set: a default counts,
// and missing is the first without one. No value at all is the host's own variable.
func interpolate(value *string) (text, missing string) {
	if value == nil {
		return "", "it"
	}
	const dollar = "\x00" // stands for one that is none: no value has it
	text = strings.ReplaceAll(*value, "$$", dollar)
	for range maxNested {
		text = ofCompose().ReplaceAllStringFunc(text, func(v string) string {
			part := ofCompose().FindStringSubmatch(v)
			switch {
			case strings.HasSuffix(part[3], "-"):
				return part[4]
			case strings.HasSuffix(part[3], "+"):
				return ""
			}
			if missing == "" {
				missing = part[1] + part[2]
			}
			return ""
		})
	}
	return strings.ReplaceAll(text, dollar, "$"), missing
}
