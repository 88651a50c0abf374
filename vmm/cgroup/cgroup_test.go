package cgroup

import "testing"

func TestMountOf(t *testing.T) {
	const hybrid = `24 1 0:22 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
30 24 0:27 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset
31 24 0:28 /docker/x /sys/fs/cgroup/part rw,relatime - cgroup cgroup rw,cpu,cpuacct
32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:10 - cgroup cgroup rw,cpu,cpuacct
33 24 0:29 / /sys/fs/cgroup/unified rw,relatime shared:11 - cgroup2 cgroup2 rw,nsdelegate
`
	for _, c := range [][4]string{
		{hybrid, "cgroup2", "", "/sys/fs/cgroup/unified"},
		{hybrid, "cgroup", "cpu", "/sys/fs/cgroup/cpu,cpuacct"},
		{hybrid, "cgroup", "memory", ""},
		{"30 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "cgroup", "cpu", ""},
		{"- - -\n - cgroup\n\n", "cgroup", "cpu", ""},
	} {
		if got := mountOf([]byte(c[0]), c[1], c[2]); got != c[3] {
			t.Errorf("%s %s: %q, want %q", c[1], c[2], got, c[3])
		}
	}
}
