package toolchain

import (
	"fmt"

	"agentbox/agentbox"
)

// npmPackage matches a package of the npm registry, and nothing from elsewhere.
var npmPackage = agentbox.Pattern(`^(@[a-z0-9][a-z0-9._-]{0,63}/)?[a-z0-9][a-z0-9._-]{0,127}(@[0-9][0-9A-Za-z.-]{0,31})?$`)

// pipPackage matches a package of the Python index, and nothing from elsewhere.
var pipPackage = agentbox.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}(==[0-9][0-9A-Za-z.]{0,31})?$`)

// NewNeed makes a Need from a configuration. The version "" or "*" means any. file is shown to
// people as the origin of the need. The error has no code.
func NewNeed(t Tool, version, file string) (Need, error) {
	n := Need{Tool: t, File: file, Key: "toolchain." + string(t)}
	if version == "" || version == "*" {
		return n, nil
	}
	if notations[t].pattern == nil || t == Make || t == CMake || t == Meson || t == Autotools {
		return n, fmt.Errorf("%s has only the distribution's version: write \"\"", t)
	}
	if n = needOf(t, file, n.Key, version); n.Refused != "" {
		return n, fmt.Errorf("%q is no version of %s", n.Refused, t)
	}
	return n, nil
}
