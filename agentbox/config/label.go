package config

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
)

// OfImage is what an image says of the boxes that are made from it. It counts where the
// configuration says nothing.
type OfImage struct {
	User     string // an account of the image; "" for none said
	Warnings []string

	label *Config // what the label devcontainer.metadata says; never nil
	env   []string
}

// ReadImage reads what an image says: its user and environment, and the label devcontainer.metadata,
// which is a list of objects like a devcontainer.json, of which later ones win. name is for
// warnings. A label that is not such a list has a warning and no effect, and so has a user that is
// no account of the image: the box could not start.
func ReadImage(name, user, label string, env, accounts []string) OfImage {
	d := newDevcontainerDecoder(source{name: "label devcontainer.metadata of " + name, root: boxWorkspace}, "")
	if label != "" {
		d.metadata(label)
	}
	if err := d.Err(""); err != nil {
		d.cfg = defaults()
		d.cfg.Warnings = []string{agentbox.Printable(fmt.Sprintf("the label devcontainer.metadata of image %s is ignored: %v", name, err))}
	}
	if d.cfg.User != "" {
		user = d.cfg.User
	}
	if !slices.Contains(accounts, user) {
		user = ""
	}
	return OfImage{User: user, Warnings: d.cfg.Warnings, label: d.cfg, env: env}
}

// metadata reads the label, one kind of key after the other, as a containerUser counts only where no
// object has a remoteUser.
func (d *devcontainerDecoder) metadata(label string) {
	doc, _, wrong := parseJSONC([]byte(label))
	if wrong != "" {
		d.FailAt(1, wrong)
		return
	}
	for _, name := range []string{"containerEnv", "remoteEnv", "containerUser", "remoteUser", "onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand", "postAttachCommand"} {
		read := (*devcontainerDecoder).unused
		for _, k := range devcontainerKeys() {
			if k.name == name && k.read != nil {
				read = k.read
			}
		}
		d.key = name
		d.Items(doc, func(object *yaml.Node) {
			d.record(object, []key{{name, func(_ *decoder, n *yaml.Node) { read(d, n) }}}, func(*yaml.Node) {})
		})
	}
}

// unused warns of a key of a label that has no effect.
func (d *devcontainerDecoder) unused(n *yaml.Node) {
	if asks(n) {
		d.warn(n, "`%s` is ignored: boxes run nothing on attach", d.key)
	}
}

// With adds the label's commands to a configuration, before its own, as the devcontainer specification
// has it. A configuration to which nothing is added is returned as it is.
func (o OfImage) With(c *Config) *Config {
	if o.label == nil || len(o.label.Setup)+len(o.label.Start) == 0 {
		return c
	}
	with := *c
	with.Setup, with.Start = slices.Concat(o.label.Setup, c.Setup), slices.Concat(o.label.Start, c.Start)
	return &with
}

// Environment is the variables of every command in a box: those of its image, then those that the
// image's label and the configuration set. An image without a PATH has that of every box.
func (o OfImage) Environment(c *Config) map[string]string {
	base := o.env
	if o.label != nil {
		base = nil
		for name, value := range o.label.Environment(o.env) {
			base = append(base, name+"="+value)
		}
	}
	return c.Environment(base)
}
