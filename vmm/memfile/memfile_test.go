package memfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSealedFileIsImmutable(t *testing.T) {
	f, err := Sealed("test", strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Check([]*os.File{f}, 1); err != nil {
		t.Error(err)
	}
	if Check([]*os.File{f}, 2) == nil {
		t.Error("one file passes for two")
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it was written to")
	}
	if f.Truncate(0) == nil || f.Truncate(100) == nil {
		t.Error("its size was changed")
	}
	b := make([]byte, len("content"))
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "content" {
		t.Errorf("it holds %q (%v)", b, err)
	}
}

func TestUnsealedFileIsDetected(t *testing.T) {
	open, err := New("test", 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	plain, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for _, f := range []*os.File{open, plain} {
		if Check([]*os.File{f}, 1) == nil {
			t.Errorf("%s passes for a sealed file", f.Name())
		}
	}
}
