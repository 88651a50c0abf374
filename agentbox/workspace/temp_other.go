//go:build !linux

package workspace

import "io/fs"

// Only Linux has a directory in memory that is always there.
const memoryRoot = ""

func spareMemory() int64 { return 0 }

func ownedByUs(fs.FileInfo) bool { return false }
