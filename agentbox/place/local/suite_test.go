package local

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local/drivers"
	"agentbox/agentbox/place/local/templates"
	"agentbox/tools/suites/placetest"
	"agentbox/vmm"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image"
	"agentbox/vmm/image/rootfs"
	"agentbox/vmm/lazyimage"
)

// wholeImages are all here.
type wholeImages struct{ templates.Images }

func (wholeImages) Lazy(context.Context, agentbox.Isolation, string, agentbox.Progress) (*image.Image, error) {
	return nil, nil
}

func (wholeImages) Partial(context.Context, image.Image) (lazyimage.Image, error) {
	return lazyimage.Image{}, errors.New("all is here")
}

// The places of this machine pass the suite of all places, through real supervisors.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real machines")
	}
	file := shellImage(t)
	program := filepath.Join(t.TempDir(), "supervisor")
	build := exec.Command("go", "build", "-tags", "supervisor", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "./supervisor/agentbox-supervisor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as programs/build.sh does, so that nothing is compiled again
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, of := range []agentbox.Isolation{agentbox.GVisor, agentbox.Container} {
		t.Run(string(of), func(t *testing.T) {
			dir, err := os.MkdirTemp("/tmp", "ab-place") // a socket's path is short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			h := home.Home{Dir: dir}
			if err := h.Create(); err != nil {
				t.Fatal(err)
			}
			digest := agentbox.Digest{}
			rand.Read(digest[:])
			placetest.Run(t, placetest.Config{
				Kind: openLocal(t, h, program, of), Again: func() place.Kind { return openLocal(t, h, program, of) }, Workspace: protocol.WorkspaceDir,
				Spec: func() place.Spec {
					return place.Spec{
						ID: agentbox.NewBoxID(), Name: "suite", Kind: of, Image: digest, File: file, CPUs: 1, Memory: 512 << 20, Disk: 1 << 30, Lease: time.Hour,
					}
				},
			})
		})
	}
}

// openLocal opens a kind as a daemon does, and skips where it cannot work.
func openLocal(t *testing.T, h home.Home, program string, of agentbox.Isolation) place.Kind {
	log := slog.New(slog.DiscardHandler)
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); running.Wait() })
	opened, err := drivers.Open(of, h, log)
	if err != nil {
		t.Fatal(err)
	}
	driver := func(agentbox.Isolation) (vmm.Driver, error) { return opened, nil }
	l := &Local{Home: h, Program: program, Driver: driver, Images: wholeImages{}, Context: ctx, Go: func(f func()) { running.Go(f) }, Log: log}
	if l.Templates, err = templates.New(templates.Config{Home: h, Driver: driver, Images: wholeImages{}, Log: log}); err != nil {
		t.Fatal(err)
	}
	kind, err := l.Kind(of)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kind.Probe(t.Context(), false); agentbox.CodeOf(err) == agentbox.Missing {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return kind
}

// shellImage is a root file system with this machine's shell and the programs that the suite runs.
func shellImage(t *testing.T) string {
	t.Helper()
	tree := rootfs.New(rootfs.DefaultLimits, time.Unix(0, 0))
	put := func(name, source string) {
		b, err := os.ReadFile(source)
		if err = errors.Join(err, tree.Put(name, &rootfs.Inode{Mode: 0o100755, Size: int64(len(b)), Content: rootfs.Bytes(b)})); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "cat", "ls", "sleep", "true"} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		put("bin/"+name, program)
		needs, err := exec.Command("ldd", program).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, library := range regexp.MustCompile(`/\S+`).FindAllString(string(needs), -1) {
			put(library[1:], library)
		}
	}
	for _, dir := range []string{"etc", "root", "tmp"} {
		if err := tree.Put(dir, &rootfs.Inode{Mode: 0o40755}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "image.erofs"))
	if err == nil {
		err = errors.Join(tree.Write(t.Context(), f, nil), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return f.Name()
}
