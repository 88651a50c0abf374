package main

import (
	"maps"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"agentbox/agentbox"
)

// option is one difference between a bare runsc and the way boxes are run:
//
//	--FLAG=VALUE                   a flag of runsc, in place of ours
//	dev.gvisor.spec.WHAT=VALUE     an annotation of the container's spec
//	tmpfs:DIR                      a tmpfs at DIR
//
// The zero value is no difference.
type option struct {
	label       string // "" or a space and the text, without the separators of scenario names
	flags       []string
	annotations map[string]string
	tmpfs       string
}

// parseOption parses one option; "" is no difference. The error is Invalid for any other text.
func parseOption(text string) (o option, err error) {
	if text == "" {
		return o, nil
	}
	o.label = " " + strings.ReplaceAll(text, "/", "")
	name, value, _ := strings.Cut(text, "=")
	dir, isTmpfs := strings.CutPrefix(text, "tmpfs:/")
	switch {
	case strings.HasPrefix(text, "--"):
		o.flags = []string{text}
	case strings.HasPrefix(name, "dev.gvisor."):
		o.annotations = map[string]string{name: value}
	case isTmpfs:
		o.tmpfs = "/" + dir
	default:
		return o, agentbox.Errorf(agentbox.Invalid, "%q is nothing that a bare runsc can be tried with", text).
			WithHint("--try=--dcache=0, --try dev.gvisor.spec.rootfs.overlay=memory or --try tmpfs:/tmp")
	}
	return o, nil
}

// describe applies the option to a container's spec.
func (o option) describe(spec *specs.Spec) {
	maps.Copy(spec.Annotations, o.annotations)
	if o.tmpfs != "" {
		spec.Mounts = append(spec.Mounts, specs.Mount{Destination: o.tmpfs, Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}})
	}
}
