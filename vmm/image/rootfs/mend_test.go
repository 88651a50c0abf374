package rootfs

import (
	"bytes"
	"fmt"
	"os"
	"testing"
)

// TestFilesBeginAtBlocks looks at the bytes of an image: what a machine maps of a file must be
// aligned, small files too.
func TestFilesBeginAtBlocks(t *testing.T) {
	members := []member{dir("many"), file("empty", ""), file("small", "small\n"), hardlink("second", "small"), file("large", string(bytes.Repeat([]byte("x"), 5000)))}
	for i := range 300 {
		members = append(members, file(fmt.Sprintf("many/%03d", i), fmt.Sprint("file ", i)))
	}
	path := write(t, apply(t, layer(t, members...)))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := patcher{file: f}
	root, err := m.open()
	if err != nil {
		t.Fatal(err)
	}
	size := int64(m.blocks) * blockSize
	if info, err := f.Stat(); err != nil || info.Size() != size {
		t.Errorf("the image says %d bytes of itself and has %d", size, info.Size())
	}
	tree := reread(t, path)
	n := checkAligned(t, &m, tree.Root(), root, size)
	if n != 304 {
		t.Errorf("looked at %d names of files, want 304", n)
	}
	b, err := tree.Lookup("many/299", false).Content.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(b); err != nil || text.String() != "file 299" {
		t.Errorf("%q, %v", text.String(), err)
	}
	fsck(t, path)
}

func checkAligned(t *testing.T, m *patcher, dir *Inode, nid uint64, size int64) (files int) {
	list, err := m.readDir(nid)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range dir.Names() {
		if child := dir.Child(name); child.IsDir() {
			files += checkAligned(t, m, child, list[name].nid, size)
			continue
		}
		files++
		ino, err := m.inode(list[name].nid)
		if err != nil || ino.size > 0 && (ino.data%blockSize != 0 || ino.data+ino.size > size) {
			t.Errorf("%s: %+v, %v", name, ino, err)
		}
	}
	return files
}
