package cachestore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

func gc(t *testing.T, s *Store, o GCOptions) GCReport {
	t.Helper()
	r, err := s.GC(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGCKeepsRoots(t *testing.T) {
	s := openStore(t, t.TempDir())
	pinned, named, loose := diskImage(1, 8), noise(2, 3<<20), diskImage(3, 8)
	copy(loose, pinned[:4*blob.BlockSize]) // shares blocks with what stays
	p, n := putImage(t, s, pinned), putStream(t, s, named)
	l := putImage(t, s, loose)
	lost := putStream(t, s, noise(4, 5<<20))
	if err := s.Pin(t.Context(), "user:test", p.Manifest); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Publish(t.Context(), blob.Name{Namespace: "cache", Key: "k", Manifest: n.Manifest, Scope: blob.Team}); err != nil {
		t.Fatal(err)
	}
	before := s.space.usedBytes()
	dry := gc(t, s, GCOptions{All: true, DryRun: true})
	if s.space.usedBytes() != before || len(dry.Items) != 3 || dry.Items[0].Reason == "" {
		t.Fatalf("a dry run: %+v", dry)
	}
	if r := gc(t, s, GCOptions{}); len(r.Items) != 0 {
		t.Fatalf("nothing is too much, and yet: %+v", r)
	}
	// The pack that is being written is not looked at: what is dead in it goes once it is full or
	// the store was opened anew.
	dir := s.cfg.Dir
	s.Close()
	s = openStore(t, dir)
	r := gc(t, s, GCOptions{All: true})
	if r.Freed < 7<<20 {
		t.Fatalf("%d bytes freed: %+v", r.Freed, r)
	}
	for _, d := range []agentbox.Digest{l.Manifest, lost.Manifest} {
		if _, err := s.Manifest(t.Context(), d); agentbox.CodeOf(err) != agentbox.NotFound {
			t.Errorf("%s is still here: %v", d.Short(), err)
		}
	}
	if !bytes.Equal(readBlob(t, s, p.Manifest, nil), pinned) || !bytes.Equal(readBlob(t, s, n.Manifest, nil), named) {
		t.Fatal("what stays is not what it was")
	}
	if err := s.Unpin("user:test"); err != nil {
		t.Fatal(err)
	}
	if err := s.Unpublish("cache", "k"); err != nil {
		t.Fatal(err)
	}
	gc(t, s, GCOptions{All: true})
	if used := s.space.usedBytes(); used > 64<<10 {
		t.Fatalf("an empty store takes %d bytes", used)
	}
	images, _ := os.ReadDir(s.path(imagesDir))
	if len(images) != 0 {
		t.Fatalf("%d images are left", len(images))
	}
}

func TestGCKeepsSharedChunks(t *testing.T) {
	s := openStore(t, t.TempDir())
	base := diskImage(1, 16)
	derived := bytes.Clone(base)
	copy(derived[9*blob.BlockSize:], "changed")
	b, d := putImage(t, s, base), putImage(t, s, derived)
	if err := s.Pin(t.Context(), "box:1", d.Manifest); err != nil {
		t.Fatal(err)
	}
	r := gc(t, s, GCOptions{All: true})
	if r.Freed < blob.BlockSize/2 || r.Freed > 3*blob.BlockSize {
		t.Fatalf("%d bytes freed of an image that shares all blocks but one", r.Freed)
	}
	if _, err := s.Manifest(t.Context(), b.Manifest); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Fatal(err)
	}
	if !bytes.Equal(readBlob(t, s, d.Manifest, nil), derived) {
		t.Fatal("the derived image lost blocks")
	}
	rep, err := s.Verify(t.Context(), VerifyOptions{})
	if err != nil || len(rep.Damaged) != 0 || len(rep.Missing) != 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
}

func TestGCDropIgnoresGrace(t *testing.T) {
	s := openStore(t, t.TempDir(), func(c *Config) { c.Grace = time.Hour })
	first := diskImage(1, 6)
	second := bytes.Clone(first)
	copy(second[3*blob.BlockSize:], "another")
	kept, dropped := putImage(t, s, first), putImage(t, s, second)
	pinned := putImage(t, s, diskImage(2, 6))
	if err := s.Pin(t.Context(), "p", pinned.Manifest); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(s.path(imagesDir, "*"+dropped.Manifest.Hex()+"*"))
	flip(t, files[0], 3*blob.BlockSize)
	if _, err := s.Verify(t.Context(), VerifyOptions{}); err != nil || len(s.Damaged()) != 1 {
		t.Fatalf("%v, damaged %d", err, len(s.Damaged()))
	}
	before := s.space.usedBytes()
	r := gc(t, s, GCOptions{Drop: []agentbox.Digest{dropped.Manifest, pinned.Manifest}})
	if len(r.Items) == 0 || r.Items[0].Name != dropped.Manifest.String() || s.space.usedBytes() >= before {
		t.Errorf("%+v, %d bytes of %d are left", r, s.space.usedBytes(), before)
	}
	for d, want := range map[agentbox.Digest]agentbox.Code{kept.Manifest: "", pinned.Manifest: "", dropped.Manifest: agentbox.NotFound} {
		if _, err := tryRead(t.Context(), s, d, nil); agentbox.CodeOf(err) != want {
			t.Errorf("%s: %v", d.Short(), err)
		}
	}
	// Of what nobody needs nothing is damaged.
	if damaged := s.Damaged(); len(damaged) != 0 {
		t.Errorf("%+v", damaged)
	}
}

func TestGCGracePeriod(t *testing.T) {
	now := time.Unix(1800000000, 0)
	s := openStore(t, t.TempDir(), func(c *Config) {
		c.Grace = time.Hour
		c.Now = func() time.Time { return now }
	})
	st := putStream(t, s, noise(1, 1<<20))
	if r := gc(t, s, GCOptions{All: true}); len(r.Items) != 0 || r.Recent == 0 {
		t.Fatalf("%+v", r)
	}
	now = now.Add(2 * time.Hour)
	if r := gc(t, s, GCOptions{All: true}); len(r.Items) == 0 {
		t.Fatal("it is old now")
	}
	if _, err := s.Manifest(t.Context(), st.Manifest); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Fatal(err)
	}
}

func TestGCEvictionOrder(t *testing.T) {
	now := time.Unix(1800000000, 0)
	s := openStore(t, t.TempDir(), func(c *Config) { c.Now = func() time.Time { return now } })
	precious := putImage(t, s, diskImage(1, 8))
	for range 3 {
		now = now.Add(time.Hour)
		readBlob(t, s, precious.Manifest, nil)
	}
	var scan []PutResult
	for i := range 4 {
		now = now.Add(time.Hour)
		st := putImage(t, s, diskImage(uint64(10+i), 8))
		readBlob(t, s, st.Manifest, nil)
		scan = append(scan, st)
	}
	if err := s.SetQuota(Quota{Total: 14 << 20}); err != nil {
		t.Fatal(err)
	}
	r := gc(t, s, GCOptions{})
	if len(r.Items) < 2 || r.Items[0].Name != scan[0].Manifest.String() {
		t.Fatalf("%+v", r)
	}
	if _, err := s.Manifest(t.Context(), precious.Manifest); err != nil {
		t.Fatalf("one pass over much pushed out what was used often: %v", err)
	}
	if s.space.usedBytes() > 14<<20 {
		t.Fatalf("%d bytes are used", s.space.usedBytes())
	}
	// A put makes room for itself, and says so when it cannot.
	putImage(t, s, diskImage(99, 8))
	if err := s.SetQuota(Quota{Total: 14 << 20, Kinds: map[blob.Kind]int64{blob.Artifact: 1 << 20}}); err != nil {
		t.Fatal(err)
	}
	_, err := s.PutStream(t.Context(), bytes.NewReader(noise(5, 4<<20)), blob.Info{Kind: blob.Artifact})
	if agentbox.CodeOf(err) != agentbox.NoSpace || !strings.Contains(agentbox.AsError(err).Hint, "cache gc") {
		t.Fatalf("%v, hint %q", err, agentbox.AsError(err).Hint)
	}
	dir := s.cfg.Dir
	s.Close()
	if q := openStore(t, dir).space.quota; q.Total != 14<<20 || q.Kinds[blob.Artifact] != 1<<20 {
		t.Fatalf("the quota is forgotten: %+v", q)
	}
}

// TestGCKeepsChunksOfNewManifest runs a whole gc after EnsureManifest has decided
// to add the metadata of a manifest, and before it does. The gc cannot see that manifest, so the
// caller must protect its chunks.
func TestGCKeepsChunksOfNewManifest(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1800000000, 0)
	s := openStore(t, dir, func(c *Config) { c.Now = func() time.Time { return now } })
	data := noise(1, 3<<20)
	d := putStream(t, s, data).Manifest
	s.Close() // the next Store starts another pack, so that gc may remove this one
	s = openStore(t, dir, func(c *Config) { c.Now = func() time.Time { return now.Add(time.Hour) } })
	m, err := s.Manifest(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	var b index.Batch
	b.DropMeta(d)
	if err := s.index.Apply(&b); err != nil {
		t.Fatal(err)
	}
	defer s.hold(d)()
	s.metaMu.Lock() // EnsureManifest waits here
	added := make(chan error, 1)
	go func() {
		_, err := s.EnsureManifest(t.Context(), d, nil)
		added <- err
	}()
	for deadline := time.Now().Add(5 * time.Minute); !isProtected(s, m.Chunks[0].Digest); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.metaMu.Unlock()
			t.Fatalf("the chunks are not protected before the metadata is written, %v", <-added)
		}
	}
	_, gcErr := s.GC(t.Context(), GCOptions{})
	s.metaMu.Unlock()
	if err := errors.Join(gcErr, <-added); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Presence(m); err != nil || p.Present != p.Chunks {
		t.Fatalf("gc left %d of %d chunks, %v", p.Present, p.Chunks, err)
	}
	if isProtected(s, m.Chunks[0].Digest) {
		t.Error("the chunks are protected forever")
	}
	if !bytes.Equal(readBlob(t, s, d, nil), data) {
		t.Error("the blob has changed")
	}
}

func isProtected(s *Store, chunk agentbox.Digest) bool {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	return s.guard.chunks[shortDigest(chunk)] > 0
}

func TestNameConflict(t *testing.T) {
	s := openStore(t, t.TempDir())
	a, b := putStream(t, s, noise(1, 1000)).Manifest, putStream(t, s, noise(2, 1000)).Manifest
	stranger := Config{Key: otherKey}
	name := blob.Name{Namespace: "cache", Key: "k", Manifest: a, Scope: blob.Team}
	foreign, err := name.Sign(stranger.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddName(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lookup("cache", "k"); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Fatalf("a stranger is believed: %v", err)
	}
	name.Manifest = b
	if _, err := s.Publish(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	n, err := s.Lookup("cache", "k")
	if err != nil || n.Manifest != b {
		t.Fatalf("the trusted one must win: %v, %v", n.Manifest, err)
	}
	name.Manifest = a
	if _, err := s.Publish(t.Context(), name); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Fatalf("a second result: %v", err)
	}
	if n, _ := s.Lookup("cache", "k"); n.Manifest != b {
		t.Fatal("a name was written twice")
	}
	alarms, err := s.Alarms()
	if err != nil || len(alarms) != 1 || alarms[0].Kept.Manifest != b || alarms[0].Lost.Manifest != a {
		t.Fatalf("%+v, %v", alarms, err)
	}
	name.Manifest = blob.Sum([]byte("nowhere"))
	if _, err := s.Publish(t.Context(), name); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Fatalf("a name of nothing: %v", err)
	}
	if err := s.Unpublish("cache", "k"); err != nil {
		t.Fatal(err)
	}
	if alarms, _ := s.Alarms(); len(alarms) != 0 {
		t.Fatal("the alarm goes on")
	}
}

// TestTrustedNameSupersedes has a producer that is trusted say for a shorter time what
// one that is not has said for ever: the key must be found.
func TestTrustedNameSupersedes(t *testing.T) {
	s := openStore(t, t.TempDir())
	name := blob.Name{Namespace: "cache", Key: "k", Manifest: putStream(t, s, noise(1, 1000)).Manifest, Scope: blob.Team}
	foreign, err := name.Sign(otherKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddName(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	name.Expires = time.Now().Add(time.Hour)
	ours, err := s.Publish(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"when it was published", "when the other was taken again"} {
		if n, err := s.Lookup("cache", "k"); err != nil || !bytes.Equal(n.Producer, ours.Producer) {
			t.Fatalf("%s: %v", when, err)
		}
		if err := s.AddName(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNamesExpire(t *testing.T) {
	now := time.Unix(1800000000, 0)
	s := openStore(t, t.TempDir(), func(c *Config) { c.Now = func() time.Time { return now } })
	d := putStream(t, s, noise(1, 1000)).Manifest
	for _, key := range []string{"a/1", "a/2", "b"} {
		n := blob.Name{Namespace: "cache", Key: key, Manifest: d, Scope: blob.Local, Expires: now.Add(time.Hour)}
		if _, err := s.Publish(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := s.Names("cache", "a/"); err != nil || len(names) != 2 || names[0].Key != "a/1" {
		t.Fatalf("%v, %v", names, err)
	}
	now = now.Add(2 * time.Hour)
	if names, _ := s.Names("", ""); len(names) != 0 {
		t.Fatalf("%v", names)
	}
	if r := gc(t, s, GCOptions{All: true}); len(r.Items) < 5 {
		t.Fatalf("%+v", r)
	}
	if left, _ := os.ReadDir(s.path(namesDir)); len(left) != 0 {
		t.Fatalf("%d names are left", len(left))
	}
}

// TestGCConcurrentWithReadersAndWriters must find every byte right while all of them work at once.
func TestGCConcurrentWithReadersAndWriters(t *testing.T) {
	s := openStore(t, t.TempDir())
	far := openStore(t, t.TempDir())
	shared := diskImage(1, 6)
	keep := putImage(t, s, shared)
	if err := s.Pin(t.Context(), "keep", keep.Manifest); err != nil {
		t.Fatal(err)
	}
	lazy := putImage(t, far, diskImage(77, 6)).Manifest
	want := readBlob(t, far, lazy, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	work := func(do func(i int) error) {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := do(i); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work(func(int) error { _, err := s.GC(ctx, GCOptions{All: true}); return err })
	work(func(i int) error { // publishes what shares blocks with what gc removes, and reads it back
		b := bytes.Clone(shared)
		copy(b[2*blob.BlockSize:], noise(uint64(i%3), 1000))
		st, err := s.PutImage(ctx, bytes.NewReader(b), int64(len(b)), blob.Info{Kind: blob.Image})
		if err != nil {
			return err
		}
		if err := s.Pin(ctx, "w", st.Manifest); agentbox.CodeOf(err) == agentbox.NotFound {
			return nil // evicted before it was pinned: there is no grace in this test
		} else if err != nil {
			return err
		}
		got, err := tryRead(ctx, s, st.Manifest, nil)
		if err == nil && !bytes.Equal(got, b) {
			t.Error("a published image is wrong")
		}
		return err
	})
	work(func(i int) error {
		b := append(noise(uint64(i%4), 300<<10), noise(9, 2<<20)...)
		st, err := s.PutStream(ctx, bytes.NewReader(b), blob.Info{Kind: blob.Cache})
		if err != nil {
			return err
		}
		got, err := tryRead(ctx, s, st.Manifest, nil)
		if agentbox.CodeOf(err) == agentbox.NotFound {
			return nil
		}
		if err == nil && !bytes.Equal(got, b) {
			t.Error("a stream is wrong")
		}
		return err
	})
	work(func(int) error {
		got, err := tryRead(ctx, s, keep.Manifest, nil)
		if err == nil && !bytes.Equal(got, shared) {
			t.Error("the pinned image is wrong")
		}
		return err
	})
	work(func(int) error { // a lazy image that comes and goes
		got, err := tryRead(ctx, s, lazy, far)
		if err == nil && !bytes.Equal(got, want) {
			t.Error("the lazy image is wrong")
		}
		return err
	})
	work(func(int) error {
		path, release, err := s.File(ctx, lazy, far)
		if err != nil {
			return err
		}
		defer release()
		got, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(got, want) {
			t.Error("the file of the lazy image is wrong")
		}
		return err
	})
	wg.Wait()
	if d := s.Damaged(); len(d) != 0 {
		t.Errorf("damage: %+v", d)
	}
	rep, err := s.Verify(t.Context(), VerifyOptions{})
	if err != nil || len(rep.Damaged) != 0 || len(rep.Missing) != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	if left, _ := filepath.Glob(s.path(imagesDir, ".new-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What was counted when it was written is counted when it goes, however small: files take more of
// the disk than they have bytes.
func TestEmptyStoreUsage(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	for i := range 3 {
		st := putStream(t, s, noise(uint64(i), 100))
		if i == 1 {
			s.Close()
			s = openStore(t, dir)
		}
		gc(t, s, GCOptions{Drop: []agentbox.Digest{st.Manifest}})
		if used := s.space.usedBytes(); used != 0 {
			t.Errorf("round %d: an empty store takes %d bytes", i, used)
		}
	}
}
