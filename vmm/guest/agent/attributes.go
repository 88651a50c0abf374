//go:build linux

package agent

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// exportedAttributes are the extended attributes that a setup result has beside those of users: the
// rights of programs such as ping, and access lists.
var exportedAttributes = []string{"security.capability", "system.posix_acl_access", "system.posix_acl_default"}

// maxAttributes bounds the names and the value of one, as Linux does.
const maxAttributes = 64 << 10

// attributes returns the extended attributes of a file or directory as records of a tar header, nil
// for none. Not every file system has any. What a record or an image cannot name is left out.
func attributes(path string) map[string]string {
	names := make([]byte, maxAttributes)
	n, err := unix.Llistxattr(path, names)
	if err != nil || n == 0 {
		return nil
	}
	out, value := map[string]string{}, make([]byte, maxAttributes)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		ofUser := strings.HasPrefix(name, "user.") && name != "user." && !strings.Contains(name, "=")
		if !ofUser && !slices.Contains(exportedAttributes, name) {
			continue
		}
		if n, err := unix.Lgetxattr(path, name, value); err == nil {
			out["SCHILY.xattr."+name] = string(value[:n])
		}
	}
	return out
}
