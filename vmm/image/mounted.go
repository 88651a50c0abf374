package image

import (
	"path/filepath"
	"strings"

	"agentbox/agentbox"
)

// mounted is a mount of this host: the directory root of a file system is mounted at path. fs is
// the file system's device number as MAJOR:MINOR.
type mounted struct{ fs, root, path string }

// mountEscapes decodes the escapes of the kernel's table of mounts.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountsBelow lists the mounts at or below a directory, whose links are resolved.
func mountsBelow(dir string) ([]string, error) {
	mounts, err := mountTable()
	var found []string
	for _, m := range mounts {
		if inside(m.path, dir) {
			found = append(found, m.path)
		}
	}
	return found, err
}

// parseMountinfo parses /proc/self/mountinfo (proc_pid_mountinfo(5)).
func parseMountinfo(table string) []mounted {
	var all []mounted
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 4 {
			all = append(all, mounted{fs: f[2], root: mountEscapes.Replace(f[3]), path: mountEscapes.Replace(f[4])})
		}
	}
	return all
}

// origin returns the file system of a path, whose links are resolved, and the path in that file
// system, which is the same wherever it is mounted.
func origin(mounts []mounted, path string) (place mounted, ok bool) {
	for _, m := range mounts {
		// The deepest mount counts, and of several at the same path the last.
		if inside(path, m.path) && len(m.path) >= len(place.path) {
			place, ok = m, true
		}
	}
	rel, err := filepath.Rel(place.path, path)
	place.root = filepath.Join(place.root, rel)
	return place, ok && err == nil
}

// mountedElsewhere refuses an include at or below which a part of own is mounted, which looks like
// any other directory. The links of real and own are resolved. asked is for the error.
func mountedElsewhere(asked, real string, own []string, mounts []mounted) error {
	places := mounts
	if here, ok := origin(mounts, real); ok {
		places = append(places[:len(places):len(places)], mounted{here.fs, here.root, real})
	}
	for _, dir := range own {
		home, ok := origin(mounts, dir)
		for _, m := range places {
			if ok && inside(m.path, real) && m.fs == home.fs && inside(m.root, home.root) {
				return exclusionError(asked, m.path)
			}
		}
	}
	return nil
}

// exclusionError is the error for a path of agentbox's own.
func exclusionError(asked, path string) error {
	return agentbox.Errorf(agentbox.Invalid, "include of %s refused: %s is where agentbox keeps the keys of every box", asked, path).
		WithHint("nothing opens that; name directories that do not contain it")
}
