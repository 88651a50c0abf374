package resources

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// A daemon in a container, or a service with MemoryMax=, has less memory than its machine, and so do
// its boxes, which are its children: beyond the limit Linux kills one of them, however much memory
// the machine has left. /proc/meminfo does not show that.

// memoryFiles are the files of one version of cgroups with a group's memory limit, its usage, and
// the part of that which is page cache, which Linux gives back first.
type memoryFiles struct {
	limit, used string
	files       []string // fields of memory.stat
}

var (
	cgroup1 = memoryFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_active_file", "total_inactive_file"}}
	cgroup2 = memoryFiles{"memory.max", "memory.current", []string{"active_file", "inactive_file"}}
)

// limitedBy is the machine as processes in these cgroups see it. root is where cgroups are mounted.
// The limit of any parent group counts; one that cannot be read is none.
func (m Machine) limitedBy(root fs.FS, groups []procfs.Cgroup) Machine {
	for _, g := range groups {
		switch {
		case slices.Contains(g.Controllers, "memory"):
			m = m.below(root, "memory", g.Path, cgroup1)
		case g.HierarchyID == 0:
			m = m.below(root, ".", g.Path, cgroup2)
		}
	}
	return m
}

// below applies the limits of a group and of those above it. In a container the mount may be the
// container's own group, whatever its path is outside: then only the last of these directories
// exists.
func (m Machine) below(root fs.FS, mount, group string, files memoryFiles) Machine {
	for ; ; group = path.Dir(group) {
		dir := path.Join(mount, strings.TrimPrefix(group, "/"))
		if limit, ok := readBytes(root, path.Join(dir, files.limit)); ok {
			used, _ := readBytes(root, path.Join(dir, files.used))
			m.Memory = min(m.Memory, limit)
			m.Available = min(m.Available, max(limit-used+filePages(root, path.Join(dir, "memory.stat"), files.files), 0))
		}
		if group == "/" || group == "." || group == "" {
			return m
		}
	}
}

// readBytes reads a file with one number; ok is false for "max".
func readBytes(root fs.FS, name string) (int64, bool) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

func filePages(root fs.FS, name string, fields []string) (sum int64) {
	b, _ := fs.ReadFile(root, name) // what cannot be read has none
	for line := range strings.Lines(string(b)) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && slices.Contains(fields, field) {
			sum += n
		}
	}
	return sum
}
