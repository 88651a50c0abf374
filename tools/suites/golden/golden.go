// Package golden compares what is written with the examples in testdata that other implementations
// are tested by, so that no format changes unnoticed. It is used by tests only and decides about no
// format.
package golden

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// update is the flag -update of a test binary, as in go test ./cachestore/blob -update. The
// difference it makes is to be read before it is committed: it means that a format changed.
var update = flag.Bool("update", false, "write the test vectors anew")

// Same fails the test unless testdata/name holds what was written just now, and gives the file's
// bytes.
func Same(t *testing.T, name string, written []byte) []byte {
	t.Helper()
	want := Read(t, name, written)
	if !bytes.Equal(written, want) {
		t.Errorf("%s has changed since it was written:\n%s", name, hex.Dump(written))
	}
	return want
}

// Read returns the bytes of testdata/name. With -update it first writes there what it was given.
func Read(t *testing.T, name string, written []byte) []byte {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, written, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
