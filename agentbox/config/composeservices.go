package config

import (
	"cmp"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-shellwords"
	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
	"agentbox/vmm/guest/protocol"
)

// Composed is a service of a Compose file beside the one that is the box. It has its own image, whose
// programs run in the box in a root of their own.
type Composed struct {
	Service        // but for what the image says
	Image   string `json:"image,omitempty"`
	Build   *Build `json:"build,omitempty"` // makes the image, where there is none
	// They replace the image's where they are not nil.
	Entrypoint []string `json:"entrypoint,omitempty"`
	Command    []string `json:"command,omitempty"`
}

// composeWords are a command: a list, or a text that is split by the library of Compose, which gives it
// to no shell. Their variables are replaced; missing is the first that has no value.
type composeWords struct {
	list    []string
	missing string
	// Of a text whose words end at a shell's operator: what is kept, and what is dropped.
	before, after string
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *composeWords) UnmarshalYAML(n *yaml.Node) (err error) {
	if *c = (composeWords{list: []string{}}); n.Kind != yaml.ScalarNode {
		if err := n.Decode(&c.list); err != nil {
			return err
		}
		for i, word := range c.list {
			word, missing := interpolate(&word)
			c.list[i], c.missing = word, cmp.Or(c.missing, missing)
		}
		return nil
	}
	text, missing := interpolate(&n.Value)
	c.missing = missing
	parser := &shellwords.Parser{}
	words, err := parser.Parse(text)
	c.list = append(c.list, words...)
	if all := []rune(text); parser.Position >= 0 && err == nil {
		c.before, c.after = string(all[:parser.Position]), string(all[parser.Position:])
	}
	return err
}

// composeNeeds are the services that one needs, with the condition of each ("" for the usual one).
type composeNeeds map[string]string

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *composeNeeds) UnmarshalYAML(n *yaml.Node) error {
	var list []string
	full := map[string]struct {
		Condition string `yaml:"condition"`
	}{}
	*c = composeNeeds{}
	if n.Kind == yaml.SequenceNode {
		if err := n.Decode(&list); err != nil {
			return err
		}
	} else if err := n.Decode(&full); err != nil {
		return err
	}
	for _, name := range list {
		(*c)[name] = ""
	}
	for name, need := range full {
		(*c)[name] = need.Condition
	}
	return nil
}

// composeFiles are names of files in any form: one, a list, or objects with a path.
type composeFiles []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *composeFiles) UnmarshalYAML(n *yaml.Node) error {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	*c = nil
	for _, item := range items {
		var file struct {
			Path string `yaml:"path"`
		}
		if item.Kind == yaml.MappingNode {
			if err := item.Decode(&file); err != nil {
				return err
			}
		} else if err := item.Decode(&file.Path); err != nil {
			return err
		}
		*c = append(*c, file.Path)
	}
	return nil
}

// composeHealth is a check of a service.
type composeHealth struct {
	Test    composeTest `yaml:"test"`
	Disable bool        `yaml:"disable"`
}

// composeTest is the command of a check: a text or CMD-SHELL is for the shell.
type composeTest composeWords

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *composeTest) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		text, missing := interpolate(&n.Value)
		*c = composeTest{list: []string{"/bin/sh", "-c", text}, missing: missing}
		return nil
	}
	var words composeWords
	if err := n.Decode(&words); err != nil {
		return err
	}
	switch first := append(words.list, "")[0]; first {
	case "CMD":
		words.list = words.list[1:]
	case "CMD-SHELL":
		words.list = append([]string{"/bin/sh", "-c"}, words.list[1:]...)
	default: // NONE
		words.list = nil
	}
	*c = composeTest(words)
	return nil
}

// composeVolume is what a service sees of the outside: SOURCE:TARGET[:MODE], or an object.
type composeVolume struct {
	Type     string `yaml:"type"`
	Source   string `yaml:"source"`
	Target   string `yaml:"target"`
	ReadOnly bool   `yaml:"read_only"`
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *composeVolume) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode {
		type parts composeVolume
		return n.Decode((*parts)(c))
	}
	text, missing := interpolate(&n.Value) // a default may have colons
	parts := strings.Split(text, ":")
	*c = composeVolume{Target: parts[0]}
	if len(parts) > 1 {
		*c = composeVolume{Source: parts[0], Target: parts[1], ReadOnly: len(parts) > 2 && slices.Contains(strings.Split(parts[2], ","), "ro")}
	}
	if missing != "" {
		c.Type = "${" + missing + "}" // which is none
	}
	return nil
}

func (d *devcontainerDecoder) runServices(n *yaml.Node) {
	d.compose.runAll = false
	d.Items(n, func(item *yaml.Node) {
		if s, ok := d.text(item); ok {
			d.compose.run = append(d.compose.run, s)
		}
	})
}

// composeOthers makes services of the box of those that start beside its own, each after those that it
// needs. What one of them needs and cannot have is a line.
func (d *devcontainerDecoder) composeOthers(services map[string]*composeService, dir string) {
	completes, volumes, ports := map[string]bool{}, map[string]string{}, map[string]string{}
	order := d.startOrder(services, completes)
	if len(order) > maxComposed {
		d.warn(d.compose.from, "only the first %d services of the Compose file are started", maxComposed)
		order = order[:maxComposed]
	}
	for _, name := range order {
		s := services[name]
		if s == nil || !serviceName().MatchString(name) {
			d.warn(d.compose.from, "service %s of the Compose file is not started: it cannot be read", agentbox.Clip(name))
			continue
		}
		image, build, why := d.composeSource(name, s, dir)
		if why == "" && image == "" && build == nil {
			why = "it has neither an image nor a build"
		}
		if why == "" && build != nil && !(filepath.IsLocal(build.Dockerfile) && filepath.IsLocal(build.Context)) {
			why = "its Dockerfile is not in the repository"
		}
		if why != "" {
			d.warn(d.compose.from, "service %s of the Compose file is not started: %s", name, why)
			continue
		}
		c := Composed{Image: image, Build: build, Entrypoint: d.words(name, s.Entrypoint), Command: d.words(name, s.Command)}
		c.Service = Service{Name: name, Env: d.composeEnv(name, s, dir), Container: &protocol.Container{
			User: d.composeText(name, s.User), Dir: d.composeText(name, s.Dir), Completes: completes[name], Mounts: d.composeMounts(name, s, dir, volumes),
			Names: slices.DeleteFunc([]string{name, d.composeText(name, s.Container), d.composeText(name, s.Hostname)}, func(n string) bool { return !hostName().MatchString(n) }),
		}}
		if !s.Health.Disable {
			c.Container.Ready = d.words(name, (*composeWords)(&s.Health.Test))
		}
		d.composeServicePorts(name, s, &c, ports)
		d.reportKeys(name, s, slices.Concat(quietInBox, quietBeside))
		d.cfg.Compose = append(d.cfg.Compose, c)
	}
	if own := d.compose.service; len(d.cfg.Compose) > 0 && hostName().MatchString(own) {
		first := d.cfg.Compose[0].Container
		first.Names = append(first.Names, own)
	}
}

// maxComposed is how many services of a Compose file a box has besides its own.
const maxComposed = 50

// hostName is what a service can be called in /etc/hosts.
var hostName = agentbox.Pattern(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9_])?$`)

// startOrder lists the services that start beside the box's own, each after those that it needs. It
// adds those to completes whose end another waits for.
func (d *devcontainerDecoder) startOrder(services map[string]*composeService, completes map[string]bool) (order []string) {
	seen := map[string]bool{d.compose.service: true}
	var visit func(name string)
	visit = func(name string) {
		s, has := services[name]
		if seen[name] || !has {
			return
		}
		seen[name] = true
		if s != nil {
			for _, need := range slices.Sorted(maps.Keys(s.Needs)) {
				visit(need)
			}
		}
		order = append(order, name)
	}
	start := d.compose.run
	if d.compose.runAll {
		start = slices.DeleteFunc(slices.Sorted(maps.Keys(services)), func(name string) bool { return services[name] != nil && len(services[name].Profiles) > 0 })
	}
	for _, name := range append(start, slices.Sorted(maps.Keys(services[d.compose.service].Needs))...) {
		visit(name)
	}
	for _, s := range services {
		if s != nil {
			for need, condition := range s.Needs {
				completes[need] = completes[need] || condition == "service_completed_successfully"
			}
		}
	}
	return order
}

// composeMounts is what a service sees of the box: files of the repository, and the volumes of the
// services before it, which have those. A volume of its own is a directory in its root.
func (d *devcontainerDecoder) composeMounts(name string, s *composeService, dir string, volumes map[string]string) (mounts []protocol.Mount) {
	for _, v := range s.Volumes {
		source, to := d.composeText(name, v.Source), d.composeText(name, v.Target)
		if path.IsAbs(to) {
			to = path.Clean(to)
		}
		rel := path.Join(dir, source)
		switch own := path.Join(protocol.ContainersDir, name, to); {
		case !path.IsAbs(to) || v.Type != "" && v.Type != "bind" && v.Type != "volume" && v.Type != "tmpfs":
			d.warn(d.compose.from, "a volume of service %s is left out: %s", name, agentbox.Clip(cmp.Or(v.Type, to)))
		case source == "" || v.Type == "tmpfs":
			mounts = append(mounts, protocol.Mount{To: to})
		case v.Type != "bind" && !strings.ContainsAny(source[:1], "./~"):
			first := volumes[source]
			if first == "" {
				volumes[source] = own
			}
			mounts = append(mounts, protocol.Mount{From: first, To: to, ReadOnly: v.ReadOnly && first != ""})
		case path.IsAbs(source) || source[0] == '~' || !filepath.IsLocal(rel):
			d.warn(d.compose.from, "volume %s of service %s is left out: a box mounts nothing of the host", agentbox.Clip(source), name)
		default:
			mounts = append(mounts, protocol.Mount{From: path.Join(protocol.WorkspaceDir, rel), To: to, ReadOnly: v.ReadOnly})
		}
	}
	return mounts
}

// composeServicePorts forwards the ports of a service, and has it be ready when the first of those that
// it serves accepts a connection. All are ports of the box, so no two services can have one.
func (d *devcontainerDecoder) composeServicePorts(name string, s *composeService, c *Composed, taken map[string]string) {
	d.key = "ports"
	var serves []string
	for i := range s.Ports {
		text := portText(&s.Ports[i])
		serves = append(serves, text[strings.LastIndexByte(text, ':')+1:])
		d.composePort(&s.Ports[i])
	}
	for _, port := range s.Expose {
		port, _, _ = strings.Cut(d.composeText(name, port), "/")
		serves = append(serves, port)
	}
	for _, port := range serves {
		if other := taken[port]; other != "" && other != name {
			d.warn(d.compose.from, "services %s and %s both serve port %s: in a box only one of them can", other, name, agentbox.Clip(port))
		}
		taken[port] = name
		if n, err := strconv.Atoi(port); err == nil && c.Port == 0 && n > 0 && n < 1<<16 {
			c.Port = n
		}
	}
}

// composeText is a value of a service with its variables replaced, those without a value by nothing.
func (d *devcontainerDecoder) composeText(name, s string) string {
	text, missing := interpolate(&s)
	d.warnEmpty(name, missing)
	return text
}

// words are those of a command, nil where the image's count.
func (d *devcontainerDecoder) words(name string, w *composeWords) []string {
	if w == nil {
		return nil
	}
	d.warnEmpty(name, w.missing)
	if w.after != "" {
		d.warn(d.compose.from, "a command of service %s ends before `%s`, as with docker compose, which runs no shell: write it [sh, -c, %s]",
			name, agentbox.Clip(w.after), agentbox.Clip(strconv.Quote(w.before+w.after)))
	}
	return w.list
}

// warnEmpty warns of a variable without a value; "" is none.
func (d *devcontainerDecoder) warnEmpty(name, variable string) {
	if variable != "" {
		d.warn(d.compose.from, "${%s} is empty in service %s: %s", agentbox.Clip(variable), agentbox.Clip(name), noHostEnv)
	}
}
