package rootfs

import (
	"bytes"
	"os"
	"testing"
)

// FuzzApplyTar feeds any two archives as layers: whatever they are, applying them ends in an error
// or in a tree that can be written and says the same when it is read back.
func FuzzApplyTar(f *testing.F) {
	f.Add(layer(f, dir("a"), file("a/b", "x"), symlink("c", "a"), hardlink("d", "a/b")), layer(f, file("c/.wh.b", ""), file("c/e", "y")))
	f.Add(layer(f, file("x/../y", "")), layer(f, file("x/.wh..wh..opq", "")))
	f.Add(odd(f)[:8192], []byte{})
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		tree, spool := New(Limits{Bytes: 1 << 20, Inodes: 1000, Memory: 1 << 20}, testEpoch), newSpool(t)
		for _, l := range [][]byte{lower, upper} {
			if err := tree.ApplyTar(t.Context(), bytes.NewReader(l), spool); err != nil {
				return
			}
		}
		if want, got := list(t, tree), list(t, reread(t, write(t, tree))); got != want {
			t.Errorf("written and read back:\n%s", firstDifference(got, want))
		}
	})
}

// FuzzRead feeds any bytes as an image.
func FuzzRead(f *testing.F) {
	f.Add(mustRead(f, write(f, apply(f, layer(f, dir("a"), file("a/b", "x"), symlink("c", "a"), hardlink("d", "a/b"))))))
	f.Fuzz(func(t *testing.T, image []byte) {
		tree, err := Read(t.Context(), bytes.NewReader(image), Limits{Bytes: 1 << 20, Inodes: 1000, Memory: 1 << 20}, testEpoch)
		if err != nil {
			return
		}
		out, err := os.CreateTemp(t.TempDir(), "out")
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		_ = tree.Write(t.Context(), out, nil) // contents may be unreadable; it must only end
	})
}
