package durable

import (
	"io/fs"
	"os"
	"syscall"
)

// Identity changes when a file is replaced or written. A file with the same Identity still has the
// same bytes, unless somebody who may write it forged the clock behind Changed.
type Identity struct {
	Size    int64  `json:"size"` // bytes
	Inode   uint64 `json:"inode"`
	MTime   int64  `json:"mtime"` // nanoseconds
	Changed int64  `json:"ctime"` // nanoseconds; no program can set it
}

// Identify returns the Identity of a file. It follows links.
func Identify(path string) (Identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Identity{}, err
	}
	return IdentityOf(info), nil
}

// IdentityOf returns the Identity of a file that was looked at.
func IdentityOf(info fs.FileInfo) Identity {
	id := Identity{Size: info.Size(), MTime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id.Inode, id.Changed = st.Ino, changeTime(st)
	}
	return id
}
