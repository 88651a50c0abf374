package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What setup prints is kept in a file of this host, again at each start: a box must not fill the
// disk with it.
func TestSetupLogIsBounded(t *testing.T) {
	b := Box{Dir: t.TempDir()}
	for range 3 {
		log, err := openLog(b)
		if err != nil {
			t.Fatal(err)
		}
		piece := []byte(strings.Repeat("x", 1<<20))
		for range 2 * maxLog >> 20 {
			if n, err := log.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(filepath.Join(b.Dir, setupLog)); err != nil || info.Size() > 2*maxLog {
			t.Errorf("%d bytes, %v", info.Size(), err)
		}
	}
}
