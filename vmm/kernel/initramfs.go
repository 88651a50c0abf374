package kernel

import (
	"bytes"
	"fmt"
	"strings"
)

// Paths in the initramfs. The agent's boot.go has the same.
const (
	initPath    = "init"
	modulesDir  = "modules"
	modulesList = "modules/list" // file names in load order, one a line
)

// initramfs builds the archive that the kernel unpacks before it runs /init. It is not compressed:
// under emulation, unpacking costs more than reading. The names of module files begin with their
// place in the load order. The kernel opens /dev/console for /init before anything is mounted.
func initramfs(agent []byte, mods []module) []byte {
	var a archive
	a.add("dev", modeDir|0o755, 0, 0, nil)
	a.add("dev/console", modeChar|0o600, 5, 1, nil)
	a.add(initPath, modeFile|0o755, 0, 0, agent)
	a.add(modulesDir, modeDir|0o755, 0, 0, nil)
	var list strings.Builder
	for i, m := range mods {
		name := fmt.Sprintf("%02d-%s.ko", i, m.Name)
		fmt.Fprintln(&list, name)
		a.add(modulesDir+"/"+name, modeFile|0o644, 0, 0, m.data)
	}
	a.add(modulesList, modeFile|0o644, 0, 0, []byte(list.String()))
	return a.finish()
}

// File types of a cpio header.
const (
	modeFile = 0o100000
	modeDir  = 0o040000
	modeChar = 0o020000
)

// archive writes cpio's "newc" format (Documentation/driver-api/early-userspace/buffer-format.rst).
// The Go libraries for it cannot write devices such as /dev/console.
type archive struct {
	buf   bytes.Buffer
	inode int
}

// add appends a file, directory or device. name does not begin with a slash. The owner is root and
// the time 1970, so that equal contents give equal bytes.
func (a *archive) add(name string, mode, major, minor int, data []byte) {
	a.inode++
	fmt.Fprintf(&a.buf, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0)
	a.buf.WriteString(name)
	a.buf.WriteByte(0)
	a.pad(4)
	a.buf.Write(data)
	a.pad(4)
}

func (a *archive) pad(to int) {
	for a.buf.Len()%to != 0 {
		a.buf.WriteByte(0)
	}
}

func (a *archive) finish() []byte {
	a.inode = -1
	a.add("TRAILER!!!", 0, 0, 0, nil)
	a.pad(512)
	return a.buf.Bytes()
}
