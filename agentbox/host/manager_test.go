package host

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place/local"
	"agentbox/agentbox/place/local/templates"
	"agentbox/tools/suites/supervisortest"
	"agentbox/vmm"
	"agentbox/vmm/image"
)

func TestMain(m *testing.M) { supervisortest.Main(m) }

// newHome makes an empty home; its path is short enough for sockets.
func newHome(t *testing.T) home.Home {
	t.Helper()
	dir, err := os.MkdirTemp("", "abx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv(home.EnvDir, dir)
	h := home.Home{Dir: dir}
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	return h
}

// noMachines is a driver for tests that start no machine: anything but Probe panics.
type noMachines struct{ vmm.Driver }

func (noMachines) Probe(context.Context, bool) (vmm.Facts, error) {
	return vmm.Facts{Version: "1"}, nil
}

// manage makes a Manager of a home without machines, and closes it with the test.
func manage(t *testing.T, h home.Home) *Manager {
	t.Helper()
	images, err := image.Open(t.Context(), h.Images())
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Config{
		Home: h, Client: os.Args[0], Images: images, Log: slog.New(slog.DiscardHandler), Places: withoutMachines(h),
		Kernel: func(context.Context, string, agentbox.Progress) (string, error) { return "kernel", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// withoutMachines opens the places of this machine, whose driver starts no machine.
func withoutMachines(h home.Home) func(PlaceParts) (Places, error) {
	return func(parts PlaceParts) (Places, error) {
		l := &local.Local{
			Home: h, Program: os.Args[0], Images: parts.Images, Context: parts.Context, Go: parts.Go, Log: slog.New(slog.DiscardHandler),
			Driver: func(agentbox.Isolation) (vmm.Driver, error) { return noMachines{}, nil },
		}
		var err error
		l.Templates, err = templates.New(templates.Config{Home: h, Driver: l.Driver, Images: parts.Images, Log: l.Log})
		return Places{Kind: l.Kind, Discard: l.Discard, Templates: l.Templates}, err
	}
}

// newTestRecord is a record like those of real boxes.
func newTestRecord(name string) record {
	id := agentbox.NewBoxID()
	return record{
		Phase: phaseReady, Key: "key of " + name, Life: 1, Workspace: 1, ImageFile: "/image", Kernel: "/kernel", User: "agent", SetUp: true,
		Guest: guestConfig{Env: map[string]string{"A": "b"}, Ports: []agentbox.ConfiguredPort{{Box: 80}}},
		Box: agentbox.Box{
			ID: id, Name: name, Isolation: agentbox.MicroVM, Branch: "main", Lifetime: agentbox.LifetimeBranch, CPUs: 2, Memory: 1 << 30,
			Disk: 1 << 30, Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Lease: agentbox.Lease{Owner: "me"},
		},
	}
}

// write puts a box on disk as a daemon leaves it.
func write(t *testing.T, h home.Home, rec record) home.Box {
	t.Helper()
	for _, dir := range []string{rec.names(h).Dir, rec.names(h).Run} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeRecord(h, rec); err != nil {
		t.Fatal(err)
	}
	return rec.names(h)
}

func touch(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		dir, isDir := strings.CutSuffix(p, "/")
		err := os.MkdirAll(dir, 0o700)
		if !isDir {
			err = os.Remove(p)
			if err == nil {
				err = os.WriteFile(p, nil, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
