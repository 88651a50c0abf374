package config

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox/toolchain"

	"agentbox/agentbox"

	"agentbox/agentbox/yamlfile"
)

// toolchain reads tools and their versions: {go: "1.22", node: ">=20"}. An empty version means
// any. The mapping replaces everything that the repository's files ask for, so `toolchain: {}`
// is a box without tools.
func (d *decoder) toolchain(n *yaml.Node) {
	d.cfg.Toolchain = toolchain.Needs{}
	d.Pairs(n, func(k, v *yaml.Node) {
		tool := toolchain.Tool(k.Value)
		if !slices.Contains(toolchain.Tools, tool) {
			d.Fail(k, "unknown tool `%s`%s", agentbox.Clip(k.Value), yamlfile.Suggest(k.Value, toolchain.Tools))
			return
		}
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
	})
	d.cfg.Toolchain.Sort()
}
