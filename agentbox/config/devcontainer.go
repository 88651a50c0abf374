package config

import (
	"maps"
	"path"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"

	"agentbox/agentbox/yamlfile"
)

// devcontainerKeys lists the supported keys of a devcontainer.json in the order in which they
// are read (sortKeys): image before features, which depend on it, and commands in the
// order in which the specification runs them. The format is that of containers.dev,
// "devcontainer.json reference".
var devcontainerKeys = []key{
	{"image", func(d *decoder, n *yaml.Node) { set(d, n, &d.cfg.Image, imageName) }},
	{"features", (*decoder).features},
	{"containerEnv", (*decoder).devcontainerEnv},
	{"remoteEnv", (*decoder).devcontainerEnv},
	{"forwardPorts", (*decoder).forwardPorts},
	{"onCreateCommand", func(d *decoder, n *yaml.Node) { d.commands(n, &d.cfg.Setup) }},
	{"updateContentCommand", func(d *decoder, n *yaml.Node) { d.commands(n, &d.cfg.Setup) }},
	{"postCreateCommand", func(d *decoder, n *yaml.Node) { d.commands(n, &d.cfg.Setup) }},
	{"postStartCommand", func(d *decoder, n *yaml.Node) { d.commands(n, &d.cfg.Start) }},
	{"remoteUser", func(d *decoder, n *yaml.Node) { set(d, n, &d.cfg.User, userWord) }},
	{"hostRequirements", (*decoder).hostRequirements},
}

// harmless lists keys that make no difference to a box, so they need no warning.
var harmless = []string{"$schema", "name", "customizations", "portsAttributes", "otherPortsAttributes", "waitFor",
	"shutdownAction", "overrideCommand", "userEnvProbe", "updateRemoteUserUID", "init"}

// unsupported maps keys that boxes cannot honour to what to do instead.
var unsupported = map[string]string{
	"build":                       "boxes run no Dockerfile: name an image, or list packages in agentbox.yaml",
	"dockerFile":                  "boxes run no Dockerfile: name an image, or list packages in agentbox.yaml",
	"dockerComposeFile":           "boxes run no Compose file: list its services in agentbox.yaml",
	"service":                     "boxes run no Compose file: list its services in agentbox.yaml",
	"runServices":                 "boxes run no Compose file: list its services in agentbox.yaml",
	"initializeCommand":           "a repository runs nothing on the host",
	"postAttachCommand":           "boxes run nothing on attach: use postStartCommand",
	"mounts":                      "a box mounts nothing of the host: use include in agentbox.yaml",
	"workspaceMount":              "the workspace is always a disk of its own at /workspace",
	"workspaceFolder":             "the workspace is always at /workspace",
	"runArgs":                     "boxes do not use a container engine",
	"appPort":                     "use forwardPorts",
	"containerUser":               "use remoteUser",
	"privileged":                  "a box is a machine: root in it is not restricted",
	"capAdd":                      "a box is a machine: root in it has every capability",
	"securityOpt":                 "a box is a machine: it has no container security options",
	"overrideFeatureInstallOrder": "the packages of all features are installed together",
	"secrets":                     "secrets are never read from a repository: use agentbox secret set",
}

// parseDevcontainer parses a devcontainer.json. Unsupported keys are warnings, because the file
// was written for other tools too; a known key with a value of the wrong type is an error. An
// empty file is valid and asks for nothing.
func parseDevcontainer(data []byte, src source) (*Config, error) {
	d := newDecoder(src)
	if len(strings.TrimSpace(string(data))) == 0 {
		return d.cfg, nil
	}
	// The specification allows comments, and editors write them.
	if doc, line, wrong := parseJSONC(data); wrong != "" {
		d.FailAt(line, wrong)
	} else {
		sortKeys(doc)
		d.record(doc, devcontainerKeys, d.unsupportedKey)
	}
	return d.result()
}

// unsupportedKey handles a key that has no effect on boxes. Unless it is harmless, the warning says
// what to do instead or which key was probably meant.
func (d *decoder) unsupportedKey(k *yaml.Node) {
	if slices.Contains(harmless, k.Value) {
		return
	}
	if instead, ok := unsupported[k.Value]; ok {
		d.warn(k, "`%s` is ignored: %s", k.Value, instead)
		return
	}
	known := slices.Concat(keyNames(devcontainerKeys), harmless, slices.Sorted(maps.Keys(unsupported)))
	d.warn(k, "unknown key `%s` is ignored%s", agentbox.Clip(k.Value), yamlfile.Nearest(k.Value, known))
}

// sortKeys sorts the keys into the order of devcontainerKeys, because the order of
// commands in the file does not matter.
func sortKeys(n *yaml.Node) {
	rank := func(k *yaml.Node) int {
		return slices.IndexFunc(devcontainerKeys, func(known key) bool { return known.name == k.Value })
	}
	if n.Kind != yaml.MappingNode {
		return
	}
	pairs := slices.Collect(slices.Chunk(n.Content, 2))
	slices.SortStableFunc(pairs, func(a, b []*yaml.Node) int { return rank(a[0]) - rank(b[0]) })
	n.Content = slices.Concat(pairs...)
}

// commands reads a lifecycle command: a string for the shell, a list of arguments, or a mapping
// of named commands in either form. The specification runs named commands in parallel; boxes run
// them one after the other, in file order.
func (d *decoder) commands(n *yaml.Node, to *[]string) {
	switch n.Kind {
	case yaml.MappingNode:
		d.Pairs(n, func(_, v *yaml.Node) { d.command(v, to) })
	default:
		d.command(n, to)
	}
}

// command adds one command as a line for sh -c. Each argument of a list is quoted, because the
// specification passes them to exec without a shell.
func (d *decoder) command(n *yaml.Node, to *[]string) {
	if n.Kind != yaml.SequenceNode {
		if s, ok := d.Text(n); ok && strings.TrimSpace(s) != "" {
			*to = append(*to, d.expand(n, s))
		}
		return
	}
	var argv []string
	if list(d, n, &argv, func(s string) (string, error) { return d.expand(n, s), nil }); len(argv) > 0 {
		*to = append(*to, shellescape.QuoteCommand(argv))
	}
}

// expand substitutes the variables in part of a command. A variable without a value stays as it
// is, with a warning, since the command may not need it.
func (d *decoder) expand(n *yaml.Node, s string) string {
	if variable, why := unsupportedVariable(s); variable != "" {
		d.warn(n, "%s…} stays as it is in the command: %s", variable, why)
	}
	return d.substitute(s)
}

// devcontainerEnv reads variables. It omits a variable whose value refers to something that
// boxes lack, because an incomplete value, for example of PATH, is worse than none.
func (d *decoder) devcontainerEnv(n *yaml.Node) {
	d.variables(n, func(name string, v *yaml.Node) {
		s, ok := d.Text(v)
		if !ok {
			return // null unsets the variable, and a box does not set it anyway
		}
		if variable, why := unsupportedVariable(s); variable != "" {
			d.warn(v, "variable `%s` is left out: %s", agentbox.Clip(name), why)
			return
		}
		d.cfg.Env[name] = d.substitute(s)
	})
}

// substitute replaces the variables that a box has. Both workspace folders are the box's,
// because commands and values are used only there.
func (d *decoder) substitute(s string) string {
	const workspace = "/workspace"
	return strings.NewReplacer(
		"${containerWorkspaceFolder}", workspace, "${containerWorkspaceFolderBasename}", path.Base(workspace),
		"${localWorkspaceFolder}", workspace, "${localWorkspaceFolderBasename}", path.Base(d.root),
	).Replace(s)
}

// unsupportedVariable returns the first variable that is never substituted, and the reason. It must cover
// every form in the specification that substitute does not handle.
func unsupportedVariable(s string) (variable, why string) {
	for _, host := range []string{"${localEnv:", "${env:"} {
		if strings.Contains(s, host) {
			return host, "a repository does not read the host's environment"
		}
	}
	if strings.Contains(s, "${containerEnv:") {
		return "${containerEnv:", "write the value instead of ${containerEnv:…}"
	}
	return "", ""
}

// forwardPorts reads numbers and "host:port". Only ports of the box itself can be forwarded;
// ports of other hosts belong to Compose services, which boxes lack, and cause a warning. The
// rest is read like the ports of an agentbox.yaml.
func (d *decoder) forwardPorts(n *yaml.Node) {
	own := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: n.Line}
	d.Items(n, func(item *yaml.Node) {
		host, port, two := strings.Cut(item.Value, ":")
		if two && host != "localhost" && host != "127.0.0.1" {
			d.warn(item, "port %s is ignored: only ports of the box itself are forwarded", agentbox.Clip(item.Value))
			return
		}
		if two {
			item = &yaml.Node{Kind: item.Kind, Tag: item.Tag, Line: item.Line, Value: port}
		}
		own.Content = append(own.Content, item)
	})
	d.ports(own)
}

// hostRequirements reads the minimum size of the machine, which becomes the size of the box. A
// GPU or any other requirement causes a warning.
func (d *decoder) hostRequirements(n *yaml.Node) {
	d.record(n, []key{
		{"cpus", func(d *decoder, n *yaml.Node) { d.integer(n, &d.cfg.CPUs, agentbox.MinCPUs, agentbox.MaxCPUs) }},
		{"memory", func(d *decoder, n *yaml.Node) { d.size(n, &d.cfg.Memory, agentbox.MinMemory, agentbox.MaxMemory) }},
		{"storage", func(d *decoder, n *yaml.Node) { d.size(n, &d.cfg.Disk, agentbox.MinDisk, agentbox.MaxDisk) }},
	}, func(k *yaml.Node) { d.warn(k, "`hostRequirements.%s` is ignored", agentbox.Clip(k.Value)) })
}

// featurePackages maps features to equivalent Debian packages. The key is the last element of
// the feature's reference without its version: ghcr.io/devcontainers/features/go:1 is go. The
// version is ignored.
var featurePackages = map[string][]string{
	"go": {"golang"}, "node": {"nodejs", "npm"}, "python": {"python3", "python3-pip", "python3-venv"}, "rust": {"cargo", "rustc"},
	"java": {"default-jdk"}, "ruby": {"ruby-full"}, "php": {"php-cli"}, "git": {"git"}, "git-lfs": {"git-lfs"},
	"github-cli": {"gh"}, "common-utils": {"curl", "less", "sudo"}, "sshd": {"openssh-server"},
}

// features converts features to packages, which only an apt: image can take.
func (d *decoder) features(n *yaml.Node) {
	d.Pairs(n, func(k, _ *yaml.Node) {
		ref, _, _ := strings.Cut(k.Value, "@")
		name, _, _ := strings.Cut(path.Base(ref), ":")
		packages, ok := featurePackages[name]
		switch {
		case !ok:
			d.warn(k, "feature `%s` is ignored: boxes have no package for it", agentbox.Clip(k.Value))
		case d.cfg.Image != "" && !strings.HasPrefix(d.cfg.Image, "apt:"):
			d.warn(k, "feature `%s` is ignored: image %s is used as it is", agentbox.Clip(k.Value), agentbox.Clip(d.cfg.Image))
		default:
			if d.cfg.Packages == nil {
				d.cfg.Packages = slices.Clone(basePackages)
			}
			d.cfg.Packages = append(d.cfg.Packages, packages...)
		}
	})
}
