package home_test

import (
	"os"
	"strings"
	"testing"

	"agentbox/agentbox/home"
)

// A box can make directories whose path is longer than the kernel takes, and what is in them counts
// towards its quota.
func TestDiskUsageOfDeepTree(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 200)
	for range 50 { // 10,000 bytes of a path
		if err := root.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := root.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		root.Close()
		root = next
	}
	defer root.Close()
	if err := root.WriteFile("big", make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := root.Symlink(dir, "link"); err != nil { // which is not followed
		t.Fatal(err)
	}
	if got := home.DiskUsage(dir); got < 4<<20 || got > 6<<20 {
		t.Errorf("%d bytes", got)
	}
}
