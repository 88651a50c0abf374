package resources

import (
	"testing"
	"testing/fstest"

	"github.com/prometheus/procfs"
)

// Boxes have what the daemon's cgroup has, not what the machine has.
func TestCgroupLimit(t *testing.T) {
	const stat1 = "cache 1\ninactive_file 7\ntotal_inactive_file 1073741824\ntotal_active_file 1073741824\n"
	const stat2 = "anon 5\ninactive_file 1073741824\nactive_file 0\nshmem 3\n"
	v1 := []procfs.Cgroup{{HierarchyID: 4, Controllers: []string{"memory"}, Path: "/a/b"}, {HierarchyID: 3, Controllers: []string{"cpuset"}, Path: "/"}}
	v2 := []procfs.Cgroup{{HierarchyID: 0, Controllers: []string{""}, Path: "/user.slice/a.service"}}
	for what, c := range map[string]struct {
		groups            []procfs.Cgroup
		files             map[string]string
		memory, available int64 // GiB
	}{
		"none":     {nil, nil, 24, 20},
		"no files": {v2, nil, 24, 20},
		"version 2": {v2, map[string]string{
			"user.slice/a.service/memory.max": "17179869184\n", "user.slice/a.service/memory.current": "8589934592\n", "user.slice/a.service/memory.stat": stat2,
		}, 16, 9},
		"of one above": {v2, map[string]string{
			"user.slice/a.service/memory.max": "max\n", "user.slice/memory.max": "17179869184", "user.slice/memory.current": "4294967296",
		}, 16, 12},
		"version 1": {v1, map[string]string{
			"memory/a/b/memory.limit_in_bytes": "17179869184\n", "memory/a/b/memory.usage_in_bytes": "8589934592\n", "memory/a/b/memory.stat": stat1,
			"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.usage_in_bytes": "1\n",
		}, 16, 10},
		"of a container":       {v1, map[string]string{"memory/memory.limit_in_bytes": "2147483648", "memory/memory.usage_in_bytes": "1073741824"}, 2, 1},
		"more than there is":   {v1, map[string]string{"memory/memory.limit_in_bytes": "1099511627776", "memory/memory.usage_in_bytes": "0"}, 24, 20},
		"more used than may":   {v1, map[string]string{"memory/memory.limit_in_bytes": "1073741824", "memory/memory.usage_in_bytes": "2147483648"}, 1, 0},
		"not to be understood": {v1, map[string]string{"memory/memory.limit_in_bytes": "lots"}, 24, 20},
	} {
		root := fstest.MapFS{}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		got := Machine{CPUs: 4, Memory: 24 * gib, Available: 20 * gib}.limitedBy(root, c.groups)
		if want := (Machine{CPUs: 4, Memory: c.memory * gib, Available: c.available * gib}); got != want {
			t.Errorf("%s: %d of %d MiB, want %d of %d GiB", what, got.Available>>20, got.Memory>>20, c.available, c.memory)
		}
	}
}
