package rootfs

import (
	"bytes"
	"encoding/binary"
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
	r := relinker{file: f}
	root, err := r.open()
	if err != nil {
		t.Fatal(err)
	}
	var blocks [4]byte
	if _, err := f.ReadAt(blocks[:], superBlocks); err != nil {
		t.Fatal(err)
	}
	size := int64(binary.LittleEndian.Uint32(blocks[:])) * blockSize
	if info, err := f.Stat(); err != nil || info.Size() != size {
		t.Errorf("the image says %d bytes of itself and has %d", size, info.Size())
	}
	n := checkAligned(t, &r, root, size)
	if n != 304 {
		t.Errorf("looked at %d names of files, want 304", n)
	}
	b, err := reread(t, path).Lookup("many/299", false).Content.Open()
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

func checkAligned(t *testing.T, r *relinker, nid uint64, size int64) (files int) {
	list, err := r.readDir(nid)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range list {
		switch {
		case name == "." || name == "..":
		case d.kind == typeDirectory:
			files += checkAligned(t, r, d.nid, size)
		case d.kind == typeRegular:
			files++
			ino, err := r.inode(d.nid)
			if err != nil || ino.size > 0 && (ino.data%blockSize != 0 || ino.data+ino.size > size) {
				t.Errorf("%s: %+v, %v", name, ino, err)
			}
		}
	}
	return files
}
