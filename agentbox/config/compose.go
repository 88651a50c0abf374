package config

import (
	"cmp"
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
	run     []string // the other services that start; all if runAll
	runAll  bool
}

// composeService is a service of a Compose file. A file is decoded after another into the same value,
// so that later ones win, as Compose merges them.
type composeService struct {
	Image       string          `yaml:"image"`
	Build       composeBuild    `yaml:"build"`
	Environment composePairs    `yaml:"environment"`
	EnvFile     composeFiles    `yaml:"env_file"`
	User        string          `yaml:"user"`
	Ports       []yaml.Node     `yaml:"ports"`
	Expose      []string        `yaml:"expose"`
	Entrypoint  *composeWords   `yaml:"entrypoint"`
	Command     *composeWords   `yaml:"command"`
	Dir         string          `yaml:"working_dir"`
	Volumes     []composeVolume `yaml:"volumes"`
	Needs       composeNeeds    `yaml:"depends_on"`
	Health      composeHealth   `yaml:"healthcheck"`
	Profiles    []string        `yaml:"profiles"`
	Container   string          `yaml:"container_name"`
	Hostname    string          `yaml:"hostname"`
	keys        map[string]bool // that the files have
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

// quietInBox are the keys of a service that ask for nothing which a box does not have or do anyway,
// quietBeside those that other services have besides.
var (
	quietInBox = []string{"image", "build", "environment", "env_file", "user", "ports", "expose", "depends_on", "init", "tty", "stdin_open", "restart", "container_name", "hostname",
		"labels", "privileged", "cap_add", "security_opt", "networks", "network_mode", "profiles"}
	quietBeside = []string{"entrypoint", "command", "working_dir", "volumes", "healthcheck", "links", "logging", "pull_policy", "read_only", "shm_size", "stop_grace_period", "tmpfs"}
)

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
	services, err := d.readCompose(own)
	service := services[c.service]
	if err == nil && service == nil {
		err = agentbox.Errorf(agentbox.Invalid, "it has no service %q", agentbox.Clip(c.service))
	}
	if err != nil {
		d.warn(c.from, "the Compose file is ignored: %s", agentbox.Clip(agentbox.AsError(err).Message))
		return
	}
	dir := path.Dir(path.Join(own, c.files[0])) // what paths in all of them are relative to
	d.composeImage(service, dir)
	for name, value := range d.composeEnv(c.service, service, dir) {
		if _, has := d.cfg.Env[name]; !has && d.cfg.Derived[name] == "" {
			d.cfg.Env[name] = value
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
	d.reportKeys(c.service, service, quietInBox)
	d.composeOthers(services, dir)
}

// composeEnv is the environment of a service: that of its files, then its own.
func (d *devcontainerDecoder) composeEnv(service string, s *composeService, dir string) map[string]string {
	env := map[string]string{}
	for _, f := range s.EnvFile {
		data, err := d.readInRepository(path.Join(dir, f))
		if err != nil {
			d.warn(d.compose.from, "env_file of service %s: %s", agentbox.Clip(service), agentbox.Clip(agentbox.AsError(err).Message))
			continue
		}
		readEnvFile(data, env)
	}
	for name, value := range s.Environment {
		switch text, missing := interpolate(value); {
		case missing != "":
			d.warn(d.compose.from, "variable `%s` of service %s is left out: %s", agentbox.Clip(name), agentbox.Clip(service), noHostEnv)
		case strings.ContainsAny(name, "= \t\n") || name == "":
			d.warn(d.compose.from, "variable %q is left out: that is not a name of a variable", agentbox.Clip(name))
		default:
			env[name] = text
		}
	}
	return env
}

func readEnvFile(data []byte, env map[string]string) {
	for line := range strings.Lines(string(data)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if name = strings.TrimSpace(name); !ok || !envName().MatchString(name) || strings.ContainsRune(value, 0) {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		env[name] = value
	}
}

// reportKeys warns of the keys of a service that ask for what a box does not do.
func (d *devcontainerDecoder) reportKeys(name string, s *composeService, quiet []string) {
	var ignored []string
	for _, k := range slices.Sorted(maps.Keys(s.keys)) {
		if !slices.Contains(quiet, k) && !strings.HasPrefix(k, "x-") {
			ignored = append(ignored, agentbox.Printable(k))
		}
	}
	if len(ignored) > 0 {
		d.warn(d.compose.from, "of service %s is ignored: %s", agentbox.Clip(name), agentbox.Clip(strings.Join(ignored, ", ")))
	}
}

func (d *devcontainerDecoder) composeImage(service *composeService, dir string) {
	c := d.compose
	image, build, why := d.composeSource(c.service, service, dir)
	switch {
	case why != "":
		d.warn(c.from, "%s", why)
	case build != nil:
		d.built = unresolved{Build: *build, from: c.from, placed: true}
	case image != "":
		d.cfg.Image = image
	}
}

// composeSource is the image of a service or, first, what makes it; why says why there is neither.
func (d *devcontainerDecoder) composeSource(name string, s *composeService, dir string) (image string, build *Build, why string) {
	text := func(s string) string { return d.composeText(name, s) }
	switch b := s.Build; {
	case b.Inline != "":
		return "", nil, "the build of service " + agentbox.Clip(name) + " is ignored: a Dockerfile in a Compose file is not read"
	case b.Context != "" || b.Dockerfile != "":
		context := path.Join(dir, text(b.Context))
		build = &Build{Dockerfile: path.Join(context, cmp.Or(text(b.Dockerfile), "Dockerfile")), Context: context, Target: text(b.Target), Args: map[string]string{}}
		for name, value := range b.Args {
			if s, missing := interpolate(value); missing == "" {
				build.Args[name] = s
			}
		}
		return "", build, ""
	case s.Image == "":
		return "", nil, ""
	}
	image, missing := interpolate(&s.Image)
	if missing != "" {
		return "", nil, fmt.Sprintf("the image of service %s is ignored: ${%s} has no value, because %s", agentbox.Clip(name), agentbox.Clip(missing), noHostEnv)
	}
	image, err := imageName(image)
	if err != nil {
		return "", nil, fmt.Sprintf("the image of service %s is ignored: %v", agentbox.Clip(name), err)
	}
	return image, nil, ""
}

// composePort reads a port in either form: [[ADDRESS:]HOST:]PORT[/tcp], or an object.
func (d *devcontainerDecoder) composePort(n *yaml.Node) {
	if s := portText(n); s != "" {
		d.appPort(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Line: d.compose.from.Line, Value: s})
	}
}

// portText is a port as [[ADDRESS:]HOST:]PORT, "" for what is none.
func portText(n *yaml.Node) string {
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
	if s, _, _ = strings.Cut(s, "/"); missing != "" || n.Kind != yaml.ScalarNode {
		return ""
	}
	return s
}

// readCompose reads the services of all files, in their order. Of the services beside the box's own,
// one that cannot be read is nil.
func (d *devcontainerDecoder) readCompose(own string) (map[string]*composeService, error) {
	services, broken, included := map[string]*composeService{}, map[string]bool{}, false
	for _, name := range d.compose.files {
		data, err := d.readInRepository(path.Join(own, name))
		if err != nil {
			return nil, err
		}
		var file struct {
			Services map[string]yaml.Node `yaml:"services"`
			Include  yaml.Node            `yaml:"include"`
		}
		if err := yaml.Unmarshal(data, &file); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		included = included || !file.Include.IsZero()
		for key, n := range file.Services {
			s := services[key]
			if s == nil {
				s = &composeService{keys: map[string]bool{}}
				services[key] = s
			}
			var keys map[string]yaml.Node
			err := n.Decode(s)
			if err == nil {
				err = n.Decode(&keys)
			}
			if err != nil && key == d.compose.service {
				return nil, fmt.Errorf("service %s of %s: %w", key, name, err)
			}
			broken[key] = broken[key] || err != nil
			for k := range keys {
				s.keys[k] = true
			}
		}
	}
	if included {
		d.warn(d.compose.from, "`include` of the Compose file is ignored")
	}
	for key := range services {
		if broken[key] {
			services[key] = nil
		}
	}
	return services, nil
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
