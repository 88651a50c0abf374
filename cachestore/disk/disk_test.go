package disk

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestSparseFiles(t *testing.T) {
	fsys := OS{}
	name := filepath.Join(t.TempDir(), "f")
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 8 << 20
	data := bytes.Repeat([]byte{1}, 1<<20)
	if err := errors.Join(f.Truncate(size), write(f, data, 2<<20), write(f, data, 3<<20), f.Sync()); err != nil {
		t.Fatal(err)
	}
	start, end, err := f.NextData(0)
	if err != nil || start > 2<<20 || end < 4<<20 {
		t.Fatalf("data from %d to %d, %v", start, end, err)
	}
	if err := f.Punch(2<<20, 1<<20); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2<<20)
	if _, err := f.ReadAt(got, 2<<20); err != nil || !bytes.Equal(got[1<<20:], data) || !bytes.Equal(got[:1<<20], make([]byte, 1<<20)) {
		t.Fatalf("a hole took more than its own: %v", err)
	}
	if _, _, err := f.NextData(size); !errors.Is(err, io.EOF) {
		t.Fatalf("data behind the end: %v", err)
	}
	if st, err := f.Stat(); err != nil || st.Size != size || st.Allocated > size {
		t.Fatalf("%+v, %v", st, err)
	}
}

func write(f File, p []byte, off int64) error {
	_, err := f.WriteAt(p, off)
	return err
}

func TestReplaceIsAtomic(t *testing.T) {
	fsys, dir := OS{}, t.TempDir()
	name := filepath.Join(dir, "f")
	for _, text := range []string{"one", "two"} {
		if err := Replace(fsys, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := ReadFile(fsys, name, 10); err != nil || string(b) != text {
			t.Fatalf("%q, %v", b, err)
		}
	}
	if _, err := ReadFile(fsys, name, 2); err == nil {
		t.Fatal("a file was read that is too long")
	}
	if err := Replace(fsys, filepath.Join(dir, "absent", "f"), nil); !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Fatalf("left behind: %v", entries)
	}
}

func TestAllocate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	for range 2 {
		if err := Allocate(name, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(name)
	if err != nil || allocated(info) < 1<<20 {
		t.Fatalf("%d bytes, %v", allocated(info), err)
	}
}
