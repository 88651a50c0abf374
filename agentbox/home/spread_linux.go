package home

import (
	"os"

	"golang.org/x/sys/unix"
)

// topDirectory is FS_TOPDIR_FL of <linux/fs.h>.
const topDirectory = 0x20000

// spread tells ext4 that the directories in dir are unrelated, so that it puts them into different
// parts of the disk (chattr(1), T). Otherwise boxes share a part, and an ext4 without a journal
// looks for room for each new file among all those that were deleted there in the last minute,
// which takes seconds for thousands of files. Other file systems lack the hint and work without it.
func spread(dir string) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil || flags&topDirectory != 0 {
		return
	}
	_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|topDirectory)
}
