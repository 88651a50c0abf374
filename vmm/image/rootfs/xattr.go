package rootfs

import (
	"strings"

	"agentbox/agentbox"
)

// Bounds of extended attributes, as Linux has them.
const (
	maxXattrValue = 64 << 10
	maxXattrs     = 64 << 10 // all of one file together
)

// aclNames are attributes whose whole name is a prefix of the erofs format. The writer knows such
// prefixes with a dot behind, and writes what the kernel reads when the rest of the name is empty.
// They are renamed on the way out (viewInfo.Sys) and on the way in (plainXattrs).
var aclNames = map[string]string{
	"system.posix_acl_access":  "system.posix_acl_access.",
	"system.posix_acl_default": "system.posix_acl_default.",
}

// keepXattr tells whether an attribute belongs into an image: file capabilities, access lists and
// what users set. The marks of overlay file systems would be taken for ours in the box, and labels
// belong to the policy of another host. name is the full one.
func keepXattr(name string) bool {
	if strings.HasPrefix(name, "trusted.overlay.") || strings.HasPrefix(name, "user.overlay.") {
		return false
	}
	if _, acl := aclNames[name]; acl {
		return true
	}
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "trusted.") || name == "security.capability"
}

// checkXattrs refuses attributes that Linux could not have, code Corrupt.
func checkXattrs(attrs map[string]string) error {
	total := 0
	for name, value := range attrs {
		_, suffix, _ := strings.Cut(name, ".")
		// The erofs writer stores a prefix as a number and the rest as bytes, so a name needs both.
		if suffix == "" || len(name) > maxName || len(value) >= maxXattrValue || strings.IndexByte(name, 0) >= 0 {
			return agentbox.Errorf(agentbox.Corrupt, "layer has an impossible extended attribute %.80q", name)
		}
		total += len(name) + len(value)
	}
	if total > maxXattrs {
		return agentbox.Errorf(agentbox.Corrupt, "layer has %d bytes of extended attributes on one file", total)
	}
	return nil
}
