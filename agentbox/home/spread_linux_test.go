package home

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTopDirectoryFlag(t *testing.T) {
	h := Home{Dir: t.TempDir()}
	var st unix.Statfs_t
	if err := unix.Statfs(h.Dir, &st); err != nil || st.Type != unix.EXT4_SUPER_MAGIC {
		t.Skipf("file system %#x, not ext4 (%v)", st.Type, err)
	}
	for range 2 {
		if err := h.Create(); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(h.Boxes())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS); err != nil || flags&topDirectory == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
}
