package config

import (
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/yamlfile"

	"go.yaml.in/yaml/v3"
)

// source describes where the bytes of a configuration came from.
type source struct {
	name string // name in error messages, relative to root
	root string // the repository's root
	home string // the user's home directory on the host; "" when there is none
}

// decoder reads a file into a Config. A failed read leaves its target unchanged.
type decoder struct {
	yamlfile.Reader
	source
	cfg      *Config
	warnings int // how many there were; the first maxWarnings of them are in cfg
}

func newDecoder(src source) *decoder {
	d := &decoder{Reader: yamlfile.Reader{Name: src.name}, source: src, cfg: defaults()}
	d.cfg.Root, d.cfg.Source = src.root, src.name
	return d
}

// result returns the Config, or an error that lists all problems. Call it once, at the end.
func (d *decoder) result() (*Config, error) {
	if err := d.Err("see docs/configuration.md for every key"); err != nil {
		return nil, err
	}
	d.sumWarnings()
	return d.cfg, nil
}

// parseYAML parses agentbox.yaml. An empty file is valid and means the defaults.
func parseYAML(data []byte, src source) (*Config, error) {
	d := newDecoder(src)
	d.Document(data, func(root *yaml.Node) { d.section(root, topLevel) })
	return d.result()
}

// key is one known key of a mapping. read stores the value itself. It is called only if the key
// has a value, with the decoder positioned at that key.
type key struct {
	name string
	read func(d *decoder, n *yaml.Node)
}

func keyNames(keys []key) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return names
}

// record reads a mapping of known keys. A key with an empty value counts as not set, which is
// what an unfilled template means. unknown is called for every other key; its value is ignored.
func (d *decoder) record(n *yaml.Node, keys []key, unknown func(k *yaml.Node)) {
	d.Pairs(n, func(k, v *yaml.Node) {
		i := slices.IndexFunc(keys, func(known key) bool { return known.name == k.Value })
		if i < 0 {
			unknown(k)
			return
		}
		if _, ok := d.Value(v); ok {
			d.Within(k.Value, func() { keys[i].read(d, v) })
		}
	})
}

func (d *decoder) section(n *yaml.Node, keys []key) {
	d.record(n, keys, func(k *yaml.Node) {
		d.Fail(k, "unknown key `%s`%s", agentbox.Clip(k.Value), yamlfile.Suggest(k.Value, keyNames(keys)))
	})
}
