package config

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox/toolchain"

	"agentbox/agentbox"

	"agentbox/agentbox/yamlfile"
)

// toolchain reads tools and their versions: {go: "1.22", node: [">=20", "<23"]}. An empty version
// means any; of several that no version satisfies together, the first ones count. The mapping
// replaces everything that the repository's files ask for, so `toolchain: {}` is a box without tools.
func (d *decoder) toolchain(n *yaml.Node) {
	d.cfg.Toolchain = toolchain.Needs{}
	d.Pairs(n, func(k, v *yaml.Node) {
		tool := toolchain.Tool(k.Value)
		if !slices.Contains(toolchain.Tools, tool) {
			d.Fail(k, "unknown tool `%s`%s", agentbox.Clip(k.Value), yamlfile.Suggest(k.Value, toolchain.Tools))
			return
		}
		versions := []*yaml.Node{v}
		if v.Kind == yaml.SequenceNode {
			versions = v.Content
		}
		for _, v := range versions {
			d.need(tool, v)
		}
	})
	d.cfg.Toolchain.Sort()
}

func (d *decoder) need(tool toolchain.Tool, v *yaml.Node) {
	version, ok := d.Text(v)
	if !ok {
		return
	}
	need, err := toolchain.NewNeed(tool, version, d.name)
	if err != nil {
		d.Fail(v, "%v", err)
		return
	}
	d.cfg.Toolchain = append(d.cfg.Toolchain, need)
}
