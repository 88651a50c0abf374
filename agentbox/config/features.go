package config

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
)

// feature stands for a feature of devcontainers. Its version option is the version of its tool.
type feature struct {
	packages []string // of Debian
	tool     toolchain.Tool
	// options are those that add packages, if their value is true.
	options map[string][]string
}

// knownFeatures maps features to what stands for them. The key is the last element of the feature's
// reference without its version: ghcr.io/devcontainers/features/go:1 is go.
var knownFeatures = map[string]feature{
	"go": {tool: toolchain.Go}, "node": {tool: toolchain.Node}, "python": {tool: toolchain.Python}, "rust": {tool: toolchain.Rust},
	"java": {tool: toolchain.Java, options: map[string][]string{"installMaven": {"maven"}, "installGradle": {"gradle"}, "installAnt": {"ant"}}},
	"ruby": {tool: toolchain.Ruby}, "php": {tool: toolchain.PHP, options: map[string][]string{"installComposer": {"composer"}}},
	"maven": {packages: []string{"maven"}}, "gradle": {packages: []string{"gradle"}}, "fish": {packages: []string{"fish"}},
	"git": {packages: []string{"git"}}, "git-lfs": {packages: []string{"git-lfs"}}, "github-cli": {packages: []string{"gh"}},
	"common-utils": {packages: []string{"curl", "less", "sudo"}, options: map[string][]string{"installZsh": {"zsh"}}},
	"sshd":         {packages: []string{"openssh-server"}},
}

// added is what features add to the packages and tools of a box.
type added struct {
	packages []string
	needs    toolchain.Needs
}

// features reads features, which only an apt: image can take.
func (d *devcontainerDecoder) features(n *yaml.Node) {
	d.Pairs(n, func(k, v *yaml.Node) {
		ref, _, _ := strings.Cut(k.Value, "@")
		name, _, _ := strings.Cut(path.Base(ref), ":")
		known, ok := knownFeatures[name]
		switch {
		case v.Kind == yaml.ScalarNode && v.Value == "false":
		case !ok:
			d.warn(k, "feature `%s` is ignored: boxes have no package for it", agentbox.Clip(k.Value))
		case d.cfg.Image != "" && d.cfg.Suite() == "":
			d.warn(k, "feature `%s` is ignored: image %s is used as it is", agentbox.Clip(k.Value), agentbox.Clip(d.cfg.Image))
		default:
			d.feature(name, known, k, v)
		}
	})
}

// feature adds one feature. An option that nothing here stands for has a line.
func (d *devcontainerDecoder) feature(name string, f feature, k, v *yaml.Node) {
	d.cfg.features.packages = append(d.cfg.features.packages, f.packages...)
	version := ""
	if v.Kind == yaml.ScalarNode { // the older form
		version = v.Value
	} else {
		var ignored []string
		d.Pairs(v, func(option, value *yaml.Node) {
			packages, adds := f.options[option.Value]
			switch {
			case option.Value == "version":
				version = value.Value
			case !adds:
				ignored = append(ignored, option.Value)
			case value.Value == "true":
				d.cfg.features.packages = append(d.cfg.features.packages, packages...)
			}
		})
		if len(ignored) > 0 {
			d.warn(k, "feature `%s`: %s has no effect", agentbox.Clip(k.Value), agentbox.Clip(strings.Join(ignored, ", ")))
		}
	}
	switch {
	case slices.Contains(anyVersion, version):
		version = ""
	case version == "none":
		return
	case f.tool == "" && version != "":
		d.warn(k, "feature `%s`: the version is the distribution's, not %s", agentbox.Clip(k.Value), agentbox.Clip(version))
	}
	if f.tool != "" {
		d.need(name, f.tool, version, k)
	}
}

// anyVersion are the words for a version that is not an old one.
var anyVersion = []string{"latest", "lts", "os-provided", "system", "stable", "automatic", "true"}

// need adds a tool in a version. A version that is not in the tool's notation has a line, and the
// tool comes in any.
func (d *devcontainerDecoder) need(name string, tool toolchain.Tool, version string, n *yaml.Node) {
	if tool == toolchain.Python && version != "" && strings.Trim(version, "0123456789.") == "" {
		version = "==" + version + ".*" // as the feature reads 3.12
	}
	need, err := toolchain.NewNeed(tool, version, d.name)
	if err != nil {
		d.warn(n, "feature `%s`: %v", agentbox.Clip(name), err)
		need, _ = toolchain.NewNeed(tool, "", d.name) // no version is always valid
	}
	if need.Key = "features." + name; need.Constraint == "" {
		need.Key = ""
	}
	d.cfg.features.needs = append(d.cfg.features.needs, need)
}

// addFeatures adds what features ask for to what a box has without them. The version that a feature
// names counts, and not those that files of the repository ask for.
func (c *Config) addFeatures() {
	if c.Packages == nil && len(c.features.packages)+len(c.features.needs) > 0 { // an apt: image that the file names
		c.Packages = slices.Clone(basePackages)
	}
	for _, p := range c.features.packages {
		if !slices.Contains(c.Packages, p) {
			c.Packages = append(c.Packages, p)
		}
	}
	for _, need := range c.features.needs {
		if need.Constraint != "" {
			c.Toolchain = slices.DeleteFunc(slices.Clone(c.Toolchain), func(n toolchain.Need) bool { return n.Tool == need.Tool })
		}
		c.Toolchain = append(c.Toolchain, need)
	}
	c.Toolchain.Sort()
}
