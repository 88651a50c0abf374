package rootfs

import (
	"bytes"
	"os"
	"testing"
)

// A tree that is written as an archive is the same tree when that is applied.
func TestTarKeepsEverything(t *testing.T) {
	tree := apply(t, odd(t))
	var b bytes.Buffer
	if err := tree.WriteTar(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	again := apply(t, b.Bytes())
	if one, two := list(t, tree), list(t, again); one != two {
		t.Errorf("they differ: %s", firstDifference(one, two))
	}
	one, err := os.ReadFile(write(t, tree))
	two, err2 := os.ReadFile(write(t, again))
	if err != nil || err2 != nil || !bytes.Equal(one, two) {
		t.Errorf("other images (%v, %v)", err, err2)
	}
}
