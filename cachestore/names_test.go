package cachestore

import (
	"context"
	"crypto/ed25519"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
)

// fakeManifests are the manifests that a table of names or pins believes to be here.
type fakeManifests map[agentbox.Digest]bool

func (f fakeManifests) hold(agentbox.Digest) func() { return func() {} }

func (f fakeManifests) known(_ context.Context, d agentbox.Digest) error {
	if !f[d] {
		return notFound("%s is not here", d.Short())
	}
	return nil
}

// newDir makes the directories of a store in a directory that ends with the test.
func newDir(t *testing.T) dir {
	t.Helper()
	d := dir{disk.OS{}, t.TempDir()}
	for _, name := range []string{namesDir, pinsDir, quarantineDir} {
		if err := d.fs.MakeDir(d.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func TestNamesOfTrustedProducers(t *testing.T) {
	a, changes, trusted := blob.Sum([]byte("a")), 0, true
	table := &names{
		dir: newDir(t), manifests: fakeManifests{a: true}, key: testKey, now: time.Now,
		trusted: func(ed25519.PublicKey) bool { return trusted }, changed: func() { changes++ },
	}
	foreign, err := blob.Name{Namespace: "image", Key: "k", Manifest: a, Scope: blob.Team, Created: time.Now()}.Sign(otherKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.AddName(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if n, err := table.Lookup("image", "k"); err != nil || n.Manifest != a {
		t.Errorf("%v, %v", n, err)
	}
	trusted = false
	if _, err := table.Lookup("image", "k"); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("a stranger's name counts: %v", err)
	}
	if list, err := table.Untrusted(); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := table.Publish(t.Context(), blob.Name{Namespace: "image", Key: "k", Manifest: blob.Sum(nil), Scope: blob.Team}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("a manifest that is not here got a name: %v", err)
	}
	if err := table.Unpublish("image", "k"); err != nil || changes != 2 {
		t.Errorf("%v, %d changes were told", err, changes)
	}
}

func TestForgetDamagedName(t *testing.T) {
	s := openStore(t, t.TempDir())
	n := blob.Name{Namespace: "image", Key: "k", Manifest: putStream(t, s, noise(1, 1000)).Manifest, Scope: blob.Local}
	if _, err := s.Publish(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	flip(t, s.path(namesDir, nameFile("image", "k")), 30)
	if err := s.Forget(t.Context(), "image", "k"); err != nil {
		t.Error(err)
	}
	if _, err := s.Lookup("image", "k"); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Error(err)
	}
}
