package team

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
	"agentbox/vmm/image"
)

// directory is one with a file in it, as a template or kernel has several.
func directory(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "memory"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTemplatesAndKernelsAreShared(t *testing.T) {
	all := newTeam(t, false, false)
	has, needs, third := all[0], all[1], all[2]
	img := has.build(t, 8)
	key, other := blob.Sum([]byte("key")).Hex(), blob.Sum([]byte("another machine's")).Hex()
	err := errors.Join(
		has.KeepTemplate(t.Context(), key, img.Digest, directory(t, "booted")),
		has.KeepKernel(t.Context(), "6.1.0-9", directory(t, "older")),
		has.KeepKernel(t.Context(), "6.1.0-10", directory(t, "newer")))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "they are offered", func() bool {
		return needs.knows(catalogue.Template, key) && needs.knows(catalogue.Kernel, runtime.GOARCH+"/6.1.0-9") && needs.knows(catalogue.Kernel, runtime.GOARCH+"/6.1.0-10")
	})
	gets := func(m *machine, want string, get func(dir string) (by, name string, err error)) {
		t.Helper()
		dir := t.TempDir()
		by, name, err := get(dir)
		if err != nil || by != has.mesh.Self().String() || name != "m0" {
			t.Fatalf("by %q, %q: %v", by, name, err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "memory")); err != nil || string(b) != want {
			t.Errorf("%q, %v", b, err)
		}
	}
	template := func(m *machine) func(string) (string, string, error) {
		return func(dir string) (string, string, error) { return m.Template(t.Context(), key, dir, nil) }
	}
	if _, err := needs.Image(t.Context(), img.Digest, ""); err != nil { // which it has before it asks for a template of it
		t.Fatal(err)
	}
	gets(needs, "booted", template(needs))
	gets(needs, "newer", func(dir string) (string, string, error) { return needs.Kernel(t.Context(), dir, nil) })

	// Who got it has it for others, under the name of who made it.
	eventually(t, "it is offered by both", func() bool { return len(third.mesh.Catalogues().Lookup(catalogue.Template, key)) == 2 })
	if _, _, err := needs.Template(t.Context(), other, t.TempDir(), nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Error(err)
	}
	want := Counters{Images: Lookups{1, 0}, Templates: Lookups{1, 1}, Kernels: Lookups{1, 0}}
	if got := needs.Counters(); got != want {
		t.Errorf("%+v", got)
	}

	// Who made them is a builder no more.
	if err := has.mesh.SetRoles(has.mesh.Self(), []identity.Role{identity.Admin}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "they go", func() bool {
		names, err := needs.SetupResults.Revoked(t.Context())
		return needs.IsRevoked(has.mesh.Self().String()) && err == nil && len(names) == 0
	})
	if _, _, err := needs.Template(t.Context(), key, t.TempDir(), nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Error(err)
	}
}

func TestPrivateTemplatesAreNotOffered(t *testing.T) {
	all := newTeam(t, true)
	secret := all[0].build(t, 9, image.Include{From: "/home/ann/.netrc", To: "/root/.netrc"})
	key := blob.Sum([]byte("key")).Hex()
	if err := all[0].KeepTemplate(t.Context(), key, secret.Digest, directory(t, "the password in a cache")); err != nil {
		t.Fatal(err)
	}
	if names, err := all[0].archives().Templates(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// Machines that make a template for one key at the same time make other bytes of it. That is no
// alarm: each keeps its own.
func TestTwoTemplatesForOneKeyRaiseNoAlarm(t *testing.T) {
	all := newTeam(t, true)
	img := all[0].build(t, 10)
	key := blob.Sum([]byte("key")).Hex()
	if err := all[0].KeepTemplate(t.Context(), key, img.Digest, directory(t, "one")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is offered", func() bool { return all[1].knows(catalogue.Template, key) })
	// The second has made one, which was removed since.
	all[1].build(t, 10)
	if err := all[1].KeepTemplate(t.Context(), key, img.Digest, directory(t, "two")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := all[1].Template(t.Context(), key, t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	store, err := all[1].SetupResults.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if alarms, err := store.Alarms(); err != nil || len(alarms) != 0 {
		t.Errorf("%v, %v", alarms, err)
	}
}
