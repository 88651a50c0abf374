package config

import (
	"fmt"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/yamlfile"

	"go.yaml.in/yaml/v3"
)

// source says where the bytes of a configuration came from.
type source struct {
	name string // as problems name it, relative to root
	root string // the repository's root
	home string // the user's home directory on the host; "" when there is none
}

// decoder reads a file into a Config. A read that fails leaves what it should have set as it was.
type decoder struct {
	yamlfile.Reader
	source
	cfg *Config
}

func newDecoder(src source) *decoder {
	d := &decoder{Reader: yamlfile.Reader{Name: src.name}, source: src, cfg: defaults()}
	d.cfg.Root, d.cfg.Source = src.root, src.name
	return d
}

// result is what was read, or all that is wrong with it.
func (d *decoder) result() (*Config, error) {
	if err := d.Err("see docs/configuration.md for every key"); err != nil {
		return nil, err
	}
	return d.cfg, nil
}

// parseYAML reads agentbox.yaml. An empty file is allowed and means the defaults.
func parseYAML(data []byte, src source) (*Config, error) {
	d := newDecoder(src)
	d.Document(data, func(root *yaml.Node) { d.section(root, topLevel) })
	return d.result()
}

// key is one known key of a mapping. read is called only for a key that has a value, with the
// decoder standing at that key, and stores the value itself.
type key struct {
	name string
	read func(d *decoder, n *yaml.Node)
}

// keyNames are the names of keys, in their order.
func keyNames(keys []key) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return names
}

// record reads a mapping of known keys. A key whose value is empty counts as not set. That is what
// a template with empty places means by it. unknown is called for the other keys, whose values are
// not looked at.
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

// section reads a mapping of known keys; any other is a problem.
func (d *decoder) section(n *yaml.Node, keys []key) {
	d.record(n, keys, func(k *yaml.Node) {
		d.Fail(k, "unknown key `%s`%s", agentbox.Clip(k.Value), yamlfile.Suggest(k.Value, keyNames(keys)))
	})
}

// warn adds to Config.Warnings what a file asks for and boxes do not have. It is for files that
// were written for other tools; in an agentbox.yaml the same is a problem.
func (d *decoder) warn(n *yaml.Node, format string, args ...any) {
	d.cfg.Warnings = append(d.cfg.Warnings, fmt.Sprintf("%s:%d: %s", d.name, n.Line, agentbox.Printable(fmt.Sprintf(format, args...))))
}
