package environment

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What watches a tree sees the files of a copy by their own names only, complete, and the git
// directory is as it was afterwards.
func TestWatchersSeeNoTemporaryNames(t *testing.T) {
	f := openFiles(t)
	from, box := t.TempDir(), t.TempDir()
	src := filepath.Join(box, "src")
	for path, dir := range map[string]bool{from + "/a": false, from + "/b": false, src: true, box + "/.git": true} {
		var err error
		if dir {
			err = os.Mkdir(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte("text"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, src, unix.IN_CREATE|unix.IN_MOVE|unix.IN_DELETE|unix.IN_MODIFY); err != nil {
		t.Fatal(err)
	}
	if err := f.CopyTo(t.Context(), from+"/.", src, CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	seen := make([]byte, 64<<10)
	n, err := unix.Read(fd, seen)
	if err != nil {
		t.Fatal(err)
	}
	if seen = seen[:n]; bytes.Contains(seen, []byte("agentbox")) || !bytes.Contains(seen, []byte("a\x00")) || !bytes.Contains(seen, []byte("b\x00")) {
		t.Errorf("a watcher saw %q", seen)
	}
	if left, err := os.ReadDir(box + "/.git"); err != nil || len(left) > 0 {
		t.Errorf("the git directory has %v, %v", left, err)
	}
	sameTree(t, from, src)
}
