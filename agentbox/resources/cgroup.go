package resources

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// A daemon in a container, or a service with MemoryMax=, has less memory than its machine, and so
// have its boxes, which are its children: beyond the limit Linux ends one of them, however much the
// machine has left. /proc/meminfo says nothing of that.

// memoryFiles are those of one version of cgroups that say how much memory a group may have, how
// much it has, and how much of that are copies of files, which Linux gives back first.
type memoryFiles struct {
	limit, used string
	files       []string // fields of memory.stat
}

var (
	cgroup1 = memoryFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_active_file", "total_inactive_file"}}
	cgroup2 = memoryFiles{"memory.max", "memory.current", []string{"active_file", "inactive_file"}}
)

// within is the machine as processes in some cgroups have it. root is where cgroups are mounted. A
// limit of any group above counts; one that cannot be read is none.
func (m Machine) within(root fs.FS, groups []procfs.Cgroup) Machine {
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

// below applies the limits of a group and of those above it. Of a container's group what is mounted
// may be itself, whatever it is called outside: then none but the last of these directories is
// there.
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

// readBytes reads a file that has one number; "max" is none.
func readBytes(root fs.FS, name string) (int64, bool) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// filePages sums some fields of a memory.stat.
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
