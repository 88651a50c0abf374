package layers

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
	"agentbox/tools/suites/meshtest"
	"agentbox/tools/suites/storetest"
	"agentbox/vmm/image"
)

// fakeHolders is a catalogue that says the same of every blob.
type fakeHolders []identity.PeerID

func (f fakeHolders) Holders(agentbox.Digest) []identity.PeerID { return f }

// member makes a machine of a team: its store, what it shares, and its part in the exchange.
func member(t *testing.T, node *wire.Node, holders ...identity.PeerID) (*Images, *Sharing, *exchange.Node) {
	t.Helper()
	dir := t.TempDir()
	images := imagesIn(t, dir)
	sharing := &Sharing{Store: images.Store, File: filepath.Join(dir, "shared.json")}
	network := exchange.OverWire(node)
	n, err := exchange.New(exchange.Config{Self: node.Self(), Network: network, Holders: fakeHolders(holders), Store: sharing})
	if err != nil {
		t.Fatal(err)
	}
	network.Answer(n)
	sharing.Changed = func() { n.Recheck(context.Background()) }
	images.Remotes.Peers = func() *exchange.Node { return n }
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		network.Close()
	})
	return images, sharing, n
}

func TestImageFromTeam(t *testing.T) {
	_, nodes := meshtest.Nodes(t, 3)
	img, content := someImage(t, t.TempDir())
	has, sharing, _ := member(t, nodes[0])
	manifest, err := has.Add(t.Context(), img, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := image.Image{Digest: img.Digest, Name: img.Name, Size: img.Size, Lazy: &image.Lazy{Manifest: manifest, From: Team}}
	gets, _, _ := member(t, nodes[1], nodes[0].Self())
	if err := gets.Prepare(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	f, err := gets.OpenLazyImage(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Need(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	// What came a moment ago is handed on, also while the one who had it all shares it no more.
	if err := sharing.Share(manifest, false); err != nil {
		t.Fatal(err)
	}
	third, _, _ := member(t, nodes[2], nodes[1].Self())
	if err := third.Prepare(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	g, err := third.OpenLazyImage(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.Need(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := g.Need(t.Context(), 1); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("a block that nobody gives: %v", err)
	}
	if err := sharing.Share(manifest, true); err != nil {
		t.Fatal(err)
	}
	meshtest.Eventually(t, "the image is whole", func() bool { return f.Complete(t.Context(), nil) == nil })
	meshtest.Eventually(t, "the other one too", func() bool { return g.Complete(t.Context(), nil) == nil })
	for _, path := range []string{f.Path(), g.Path()} {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	// It is known from whom each byte came: the first one had nobody else to ask but the second.
	for from, filling := range map[*LazyImage][]identity.PeerID{f: {nodes[0].Self(), nodes[2].Self()}, g: {nodes[0].Self(), nodes[1].Self()}} {
		sum := int64(0)
		for _, r := range from.Received() {
			if sum += r.Bytes; r.Peer != filling[0].String() && r.Peer != filling[1].String() || r.Remote != "" {
				t.Errorf("%+v", r)
			}
		}
		if sum != sentBytes(from) {
			t.Errorf("%d bytes of %d have a sender", sum, sentBytes(from))
		}
	}
}

// sentBytes counts the bytes of an image that somebody has to send.
func sentBytes(f *LazyImage) int64 {
	sum := int64(0)
	for _, c := range f.Manifest().Chunks {
		if !c.Zero() {
			sum += int64(c.Size)
		}
	}
	return sum
}

// What no peer has comes from a remote, and the other way round.
func TestRemotesSupplementPeers(t *testing.T) {
	_, nodes := meshtest.Nodes(t, 2)
	img, content, dir := exported(t)
	gets, _, _ := member(t, nodes[0], nodes[1].Self()) // who runs nothing
	list, err := gets.List(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := gets.Prepare(t.Context(), list[0]); err != nil {
		t.Fatal(err)
	}
	f, err := gets.OpenLazyImage(t.Context(), list[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Need(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := f.Complete(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(f.Path()); err != nil || !bytes.Equal(got, content) || blob.Sum(got) != img.Digest {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestPeersConformance: those of a Session. Of pieces without a manifest peers give none.
func TestPeersConformance(t *testing.T) {
	storetest.TestSession(t, func(t *testing.T, pieces [][]byte) cachestore.Source {
		_, nodes := meshtest.Nodes(t, 2)
		has, sharing, _ := member(t, nodes[0])
		store, err := has.Store(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for _, p := range pieces {
			if err := os.WriteFile(filepath.Join(dir, blob.Sum(p).Hex()), p, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := blob.DecodeManifest(p); err != nil {
				if _, err := store.PutStream(t.Context(), bytes.NewReader(p), blob.Info{Kind: blob.Artifact}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if _, err := store.EnsureManifest(t.Context(), blob.Sum(p), cachestore.Directory(dir)); err != nil {
				t.Fatal(err)
			}
			if err := sharing.Share(blob.Sum(p), true); err != nil {
				t.Fatal(err)
			}
		}
		gets, _, _ := member(t, nodes[1], nodes[0].Self())
		return gets.Remotes.Source(Team)
	})
}

func TestSharingDecisions(t *testing.T) {
	dir := t.TempDir()
	images := imagesIn(t, dir)
	img, _ := someImage(t, t.TempDir())
	manifest, err := images.Add(t.Context(), img, 0)
	if err != nil {
		t.Fatal(err)
	}
	store, _ := images.Store(t.Context())
	work, err := store.PutStream(t.Context(), bytes.NewReader([]byte("work")), blob.Info{Kind: blob.Snapshot})
	if err != nil {
		t.Fatal(err)
	}
	s := &Sharing{Store: images.Store, File: filepath.Join(dir, "shared.json")}
	is := func(d agentbox.Digest, want bool) {
		t.Helper()
		if got := s.Shared(t.Context(), identity.PeerID{}, d); got != want {
			t.Errorf("shared: %v", got)
		}
	}
	is(manifest, true)
	is(work.Manifest, false)
	for d, yes := range map[agentbox.Digest]bool{manifest: false, work.Manifest: true} {
		if err := s.Share(d, yes); err != nil {
			t.Fatal(err)
		}
	}
	s = &Sharing{Store: images.Store, File: s.File} // as a new daemon does
	is(manifest, false)
	is(work.Manifest, true)
	is(blob.Sum([]byte("elsewhere")), false)
	if err := os.WriteFile(s.File, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = &Sharing{Store: images.Store, File: s.File}
	is(work.Manifest, false) // what cannot be read shares nothing
	if err := s.Share(manifest, true); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("%v", err)
	}
}

func FuzzSharing(f *testing.F) {
	b, err := encodeSharing(map[agentbox.Digest]bool{{1}: true, {2}: false})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		said, err := decodeSharing(b)
		if err != nil {
			return
		}
		again, err := encodeSharing(said)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := decodeSharing(again); err != nil || len(same) != len(said) {
			t.Errorf("%d became %d, %v", len(said), len(same), err)
		}
	})
}
