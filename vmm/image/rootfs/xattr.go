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

// aclNames are attributes whose whole name is a prefix in the erofs format. The library expects a
// dot after such a prefix, and writes what the kernel reads when the rest of the name is empty. So
// they are renamed before they are written (viewInfo.Sys) and after they were read (plainXattrs).
var aclNames = map[string]string{
	"system.posix_acl_access":  "system.posix_acl_access.",
	"system.posix_acl_default": "system.posix_acl_default.",
}

// keepXattr tells whether an attribute belongs in an image: file capabilities, access lists and
// what users set. The box would take an overlay file system's marks for its own, and security
// labels belong to the policy of another host. name is the full one.
func keepXattr(name string) bool {
	if strings.HasPrefix(name, "trusted.overlay.") || strings.HasPrefix(name, "user.overlay.") {
		return false
	}
	if _, acl := aclNames[name]; acl {
		return true
	}
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "trusted.") || name == "security.capability"
}

// checkXattrs refuses attributes that Linux could not have, code Corrupt. It returns how many bytes
// their names and values have.
func checkXattrs(attrs map[string]string) (total int, err error) {
	for name, value := range attrs {
		_, suffix, _ := strings.Cut(name, ".")
		// The erofs writer stores a prefix as a number and the rest as bytes, so a name needs both.
		if suffix == "" || len(name) > maxName || len(value) >= maxXattrValue || strings.IndexByte(name, 0) >= 0 {
			return 0, agentbox.Errorf(agentbox.Corrupt, "layer has an impossible extended attribute %.80q", name)
		}
		total += len(name) + len(value)
	}
	if total > maxXattrs {
		return 0, agentbox.Errorf(agentbox.Corrupt, "layer has %d bytes of extended attributes on one file", total)
	}
	return total, nil
}
