package toolchain

import (
	"fmt"

	"agentbox/agentbox"
)

// npmPackage is a package of the npm registry by name, and nothing that npm would take from
// elsewhere.
var npmPackage = agentbox.Pattern(`^(@[a-z0-9][a-z0-9._-]{0,63}/)?[a-z0-9][a-z0-9._-]{0,127}(@[0-9][0-9A-Za-z.-]{0,31})?$`)

// pipPackage is a package of the Python index by name, and nothing that pip would take from
// elsewhere.
var pipPackage = agentbox.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}(==[0-9][0-9A-Za-z.]{0,31})?$`)

// Ask makes a need of what a configuration says. An empty version, or "*", is any. file is what
// people are told asks for it. The error has no code.
func Ask(t Tool, version, file string) (Need, error) {
	n := Need{Tool: t, File: file, Key: "toolchain." + string(t)}
	if version == "" || version == "*" {
		return n, nil
	}
	switch t {
	case Go:
		n = goPin(file, n.Key, version)
	case Node:
		n = nodeNeed(file, n.Key, version)
	case Python:
		n = pythonNeed(file, n.Key, version)
	case Rust:
		n = rustNeed(file, n.Key, version)
	case Package:
		if n.Constraint = version; !npmPackage().MatchString(version) {
			n.Refused = clip(version)
		}
	case PipPackage:
		if n.Constraint = version; !pipPackage().MatchString(version) {
			n.Refused = clip(version)
		}
	case PNPM, Yarn:
		if n.Constraint = version; !someVersion().MatchString(version) {
			n.Refused = clip(version)
		}
	default:
		return n, fmt.Errorf("%s comes in the version that the distribution has: write \"\"", t)
	}
	if n.Refused != "" {
		return n, fmt.Errorf("%q is no version of %s", n.Refused, t)
	}
	return n, nil
}
