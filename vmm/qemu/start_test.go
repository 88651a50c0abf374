package qemu

import (
	"os"
	"slices"
	"syscall"
	"testing"
)

// The command line names descriptors by number, so each has to be in its place, whatever else the
// machine has.
func TestDescriptorsAreWhereTheCommandLineSays(t *testing.T) {
	name := func(names ...string) (files []*os.File) {
		for _, n := range names {
			fd, err := syscall.Dup(int(os.Stderr.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			f := os.NewFile(uintptr(fd), n)
			t.Cleanup(func() { f.Close() })
			files = append(files, f)
		}
		return files
	}
	sockets := []string{"qmp", "agent", "console", "network"}
	for _, c := range []struct {
		what           string
		sockets, files []string
	}{
		{"a boot", sockets, []string{"memory"}},
		{"a clone", sockets, []string{"memory", "state"}},
		{"a boot without its image", append(slices.Clone(sockets), "image"), []string{"memory"}},
		{"a clone without its image", append(slices.Clone(sockets), "image"), []string{"memory", "state"}},
	} {
		got := map[string]int{}
		for i, f := range inherited(name(c.sockets...), name(c.files...)) {
			if f != nil {
				got[f.Name()] = fdQMP + i
			}
		}
		want := map[string]int{
			"qmp": fdQMP, "agent": fdAgent, "console": fdConsole, "network": fdNetwork, "memory": fdMemory, "state": fdState, "image": fdImage,
		}
		for _, n := range append(c.sockets, c.files...) {
			if got[n] != want[n] {
				t.Errorf("%s: %s is descriptor %d, not %d", c.what, n, got[n], want[n])
			}
		}
		if len(got) != len(c.sockets)+len(c.files) {
			t.Errorf("%s: inherits %v", c.what, got)
		}
	}
}
