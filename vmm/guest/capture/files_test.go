//go:build linux

package capture

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A file that is written while it is read is read again: what is captured is what it was at one moment. One
// that always changes is not waited for.
func TestWrittenWhileRead(t *testing.T) {
	for name, c := range map[string]struct {
		writes int  // during the first reads
		grows  bool // each adds to it
		reads  int
		torn   bool
	}{
		"never": {0, false, 1, false}, "once": {1, false, 2, false}, "twice": {2, false, 3, false}, "always": {9, false, rounds, true}, "a log": {9, true, rounds, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "f"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			at, got, reads := time.Unix(1_000_000_000, 0), "", 0
			write := func(off int64, text string) {
				if _, err := f.WriteAt([]byte(text), off); err != nil {
					t.Fatal(err)
				}
				at = at.Add(time.Millisecond)
				if err := os.Chtimes(f.Name(), at, at); err != nil {
					t.Fatal(err)
				}
			}
			part := func(from, to int64) string {
				b := make([]byte, to-from)
				if _, err := f.ReadAt(b, from); err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			write(0, "0000")
			err = steady(f.Stat, func(size int64) error {
				got = part(0, 2)
				if reads++; reads <= c.writes && c.grows {
					write(size, "0000")
				} else if reads <= c.writes {
					write(0, strings.Repeat(string(rune('0'+reads)), 4))
				}
				got += part(2, size)
				return nil
			})
			torn := strings.Trim(got, got[:1]) != ""
			if err != nil || reads != c.reads || torn != c.torn {
				t.Errorf("%q after %d reads: %v", got, reads, err)
			}
		})
	}
	failed := errors.New("failed")
	dir := t.TempDir()
	if err := steady(func() (fs.FileInfo, error) { return os.Stat(dir) }, func(int64) error { return failed }); !errors.Is(err, errOther) {
		t.Errorf("a directory: %v", err)
	}
}
