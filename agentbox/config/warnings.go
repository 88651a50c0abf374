package config

import (
	"fmt"

	"agentbox/agentbox"

	"go.yaml.in/yaml/v3"
)

// maxWarnings bounds Config.Warnings: a file of 1 MiB could hide all else that a command prints.
const maxWarnings = 20

// warn adds to Config.Warnings something that a file asks for and boxes lack. It is for files
// written for other tools; in an agentbox.yaml the same is an error.
func (d *decoder) warn(n *yaml.Node, format string, args ...any) {
	if d.warnings++; d.warnings > maxWarnings {
		return
	}
	d.cfg.Warnings = append(d.cfg.Warnings, fmt.Sprintf("%s:%d: %s", d.name, n.Line, agentbox.Printable(fmt.Sprintf(format, args...))))
}

// sumWarnings says how many warnings there were beyond maxWarnings.
func (d *decoder) sumWarnings() {
	if more := d.warnings - maxWarnings; more > 0 {
		d.cfg.Warnings = append(d.cfg.Warnings, fmt.Sprintf("%s: and %s", d.name, agentbox.Plural(more, "more warning")))
	}
}
