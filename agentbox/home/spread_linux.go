package home

import (
	"os"

	"golang.org/x/sys/unix"
)

// topDirectory is FS_TOPDIR_FL of <linux/fs.h>.
const topDirectory = 0x20000

// spread tells ext4 that what is in one directory of dir has nothing to do with what is in another,
// so it puts them into different parts of the disk (chattr(1), T). Else boxes share a part, and
// where ext4 has no journal every file made there is looked for among all those that were deleted
// in the last minute, which takes seconds for thousands. Other file systems have no such hint, and
// nothing is wrong without it.
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
