package config

import (
	"path"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/yamlfile"
)

// unresolved is a build as a devcontainer.json has it: in either of two forms, and with paths that
// are relative to the file's own directory.
type unresolved struct {
	Build
	from   *yaml.Node // names the Dockerfile; nil for none
	placed bool       // the paths are relative to the root already
}

func (d *devcontainerDecoder) build(n *yaml.Node) {
	keys := []key{
		{"dockerfile", func(_ *decoder, n *yaml.Node) { d.dockerfile(n) }},
		{"context", func(_ *decoder, n *yaml.Node) { d.context(n) }},
		{"target", func(_ *decoder, n *yaml.Node) { d.built.Target, _ = d.text(n) }},
		{"args", func(_ *decoder, n *yaml.Node) {
			d.Pairs(n, func(k, v *yaml.Node) {
				if s, ok := d.text(v); ok {
					d.built.Args[k.Value] = s
				}
			})
		}},
		{"cacheFrom", func(*decoder, *yaml.Node) {}},
		{"options", func(_ *decoder, n *yaml.Node) { d.warn(n, "`build.options` is ignored: the image is made by buildah") }},
	}
	d.record(n, keys, func(k *yaml.Node) {
		d.warn(k, "unknown key `build.%s` is ignored%s", agentbox.Clip(k.Value), yamlfile.Nearest(k.Value, keyNames(keys)))
	})
}

func (d *devcontainerDecoder) dockerfile(n *yaml.Node) {
	if s, ok := d.text(n); ok && s != "" {
		d.built.Dockerfile, d.built.from = s, n
	}
}

func (d *devcontainerDecoder) context(n *yaml.Node) { d.built.Context, _ = d.text(n) }

// resolveBuild takes the build, if there is a Dockerfile: the format's own tool then ignores an
// image. A path that leads out of the repository is none.
func (d *devcontainerDecoder) resolveBuild() {
	b := d.built.Build
	if d.built.from == nil {
		return
	}
	if dir := path.Dir(filepath.ToSlash(d.name)); !d.built.placed {
		b.Dockerfile, b.Context = path.Join(dir, b.Dockerfile), path.Join(dir, b.Context)
	}
	for _, p := range []string{b.Dockerfile, b.Context} {
		if !filepath.IsLocal(filepath.FromSlash(p)) {
			d.warn(d.built.from, "the Dockerfile is ignored: %s is not in the repository", agentbox.Clip(p))
			return
		}
	}
	d.cfg.Build, d.cfg.Image = &b, ""
}
