package cachestore

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
)

// controlledSource is a Source that counts what is asked for, and can hold back or corrupt a piece.
type controlledSource struct {
	Source
	mu      sync.Mutex
	asked   map[agentbox.Digest]int
	hold    map[agentbox.Digest]chan struct{}
	corrupt bool
}

func newControlledSource(src Source) *controlledSource {
	return &controlledSource{Source: src, asked: map[agentbox.Digest]int{}, hold: map[agentbox.Digest]chan struct{}{}}
}

func (c *controlledSource) Get(ctx context.Context, d agentbox.Digest, max int) ([]byte, error) {
	c.mu.Lock()
	c.asked[d]++
	hold, spoil := c.hold[d], c.corrupt
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b, err := c.Source.Get(ctx, d, max)
	if err == nil && spoil {
		b = bytes.Clone(b)
		b[len(b)/2] ^= 1
	}
	return b, err
}

func (c *controlledSource) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, times := range c.asked {
		n += times
	}
	return n
}

// otherStore is a store that has an image, as a Source, and the image's manifest.
func otherStore(t *testing.T, b []byte) (*controlledSource, agentbox.Digest) {
	t.Helper()
	s := openStore(t, t.TempDir())
	return newControlledSource(s), putImage(t, s, b).Manifest
}

func fillImage(t *testing.T, s *Store, d agentbox.Digest, src Source) *LazyImage {
	t.Helper()
	l, err := s.OpenLazyImage(t.Context(), d, src)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// blockOf is block i of an image's bytes.
func blockOf(b []byte, i int) []byte {
	return b[i*blob.BlockSize : min((i+1)*blob.BlockSize, len(b))]
}

func wantBlock(t *testing.T, l *LazyImage, i int, want []byte) {
	t.Helper()
	f, err := os.Open(l.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, int64(i)*blob.BlockSize); err != nil || !bytes.Equal(got, want) {
		t.Errorf("block %d is not what it should be (%v)", i, err)
	}
}

func TestLazyImageFetchesOnDemand(t *testing.T) {
	b := diskImage(1, 8)
	src, d := otherStore(t, b)
	s := openStore(t, t.TempDir())
	l := fillImage(t, s, d, src)
	before := src.total() // the manifest
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for _, i := range []int{6, 8, 6, 1} { // the last one is short, 1 is zeros
				if err := l.Need(t.Context(), i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := src.total() - before; n != 2 {
		t.Errorf("two blocks took %d questions", n)
	}
	for _, i := range []int{1, 6, 8} {
		wantBlock(t, l, i, blockOf(b, i))
	}
	wantBlock(t, l, 5, make([]byte, blob.BlockSize)) // nobody may read it yet
	if have := l.Bitmap(); !bytes.Equal(have, []byte{1<<1 | 1<<6, 1}) {
		t.Errorf("bitmap %08b", have)
	}
	if trace := l.Trace(); len(trace) != 2 || trace[0] != 6 && trace[0] != 8 {
		t.Errorf("trace %v", trace)
	}
	for _, i := range []int{-1, 9} {
		if err := l.Need(t.Context(), i); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("block %d: %v", i, err)
		}
	}
	if err := l.Complete(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path, release, err := s.File(t.Context(), d, nil)
	if err != nil || path != l.Path() {
		t.Fatalf("the file is %s, was filled as %s (%v)", path, l.Path(), err)
	}
	defer release()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, b) {
		t.Errorf("the whole image differs (%v)", err)
	}
}

func TestLazyImageDemandHasPriority(t *testing.T) {
	b := noise(2, 12*blob.BlockSize)
	src, d := otherStore(t, b)
	l := fillImage(t, openStore(t, t.TempDir()), d, src)
	defer l.Close()
	held := make(chan struct{})
	src.hold[l.Manifest().Chunks[7].Digest] = held
	before := src.total()
	needed, completed := make(chan error, 1), make(chan error, 1)
	go func() { needed <- l.Need(t.Context(), 7) }()
	for src.total() == before {
		time.Sleep(time.Millisecond)
	}
	go func() { completed <- l.Complete(t.Context(), nil) }()
	time.Sleep(50 * time.Millisecond)
	if n := src.total() - before; n != 1 {
		t.Errorf("%d blocks were asked for while somebody waited for one", n)
	}
	close(held)
	if err := errors.Join(<-needed, <-completed); err != nil {
		t.Error(err)
	}
}

func TestLazyImageRejectsWrongBytes(t *testing.T) {
	b := noise(3, 4*blob.BlockSize)
	src, d := otherStore(t, b)
	l := fillImage(t, openStore(t, t.TempDir()), d, src)
	defer l.Close()
	src.corrupt = true
	if err := l.Need(t.Context(), 2); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("wrong bytes: %v", err)
	}
	if l.Bitmap()[0] != 0 {
		t.Error("a block that came wrong may be read")
	}
	wantBlock(t, l, 2, make([]byte, blob.BlockSize))
	src.corrupt = false
	if err := l.Need(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	wantBlock(t, l, 2, blockOf(b, 2))
}

// A process that was killed has lost what it knew, and not the bytes.
func TestLazyImageFetchesOnce(t *testing.T) {
	b := noise(4, 6*blob.BlockSize)
	src, d := otherStore(t, b)
	dir := t.TempDir()
	s := openStore(t, dir)
	l := fillImage(t, s, d, src)
	for i := range 6 {
		if err := l.Need(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	s.Close() // without l.Close: what was not flushed is not claimed
	s = openStore(t, dir)
	l = fillImage(t, s, d, src)
	before := src.total()
	if err := l.Complete(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := src.total() - before; n != 0 {
		t.Errorf("%d blocks were asked for again", n)
	}
	if p, err := s.Presence(l.Manifest()); err != nil || p.Present != 6 {
		t.Errorf("%d blocks are claimed (%v)", p.Present, err)
	}
}

// A box may read the file of a manifest that stays, while this process knows nothing of the box.
func TestGCKeepsLazyImage(t *testing.T) {
	shared := noise(5, 3*blob.BlockSize)
	b := append(bytes.Clone(shared), noise(6, 3*blob.BlockSize)...)
	src, d := otherStore(t, b)
	s := openStore(t, t.TempDir())
	putImage(t, s, shared)
	l := fillImage(t, s, d, src)
	for i := range 5 {
		if err := l.Need(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Pin(t.Context(), "box:test", d), l.Close()); err != nil {
		t.Fatal(err)
	}
	gc(t, s, GCOptions{All: true})
	for i := range 5 {
		wantBlock(t, l, i, blockOf(b, i))
	}
}

func TestLazyImageConcurrentWithGC(t *testing.T) {
	b := noise(7, 24*blob.BlockSize)
	src, d := otherStore(t, b)
	s := openStore(t, t.TempDir())
	l := fillImage(t, s, d, src)
	ctx, stop := context.WithCancel(t.Context())
	var wg, collecting sync.WaitGroup
	collecting.Go(func() {
		for ctx.Err() == nil {
			putImage(t, s, diskImage(8, 4))
			gc(t, s, GCOptions{All: true})
		}
	})
	for w := range 4 {
		wg.Go(func() {
			for i := range 24 {
				n := (i*7 + w) % 24
				if err := l.Need(t.Context(), n); err != nil {
					t.Error(err)
				}
				wantBlock(t, l, n, blockOf(b, n))
			}
		})
	}
	wg.Go(func() {
		if err := l.Complete(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	stop()
	collecting.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPutImageFileLinks(t *testing.T) {
	b := diskImage(8, 6)
	mine := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(mine, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, filepath.Join(filepath.Dir(mine), "store"))
	other := putImage(t, s, append(bytes.Clone(blockOf(b, 2)), blockOf(b, 0)...))
	st, err := s.PutImageFile(t.Context(), mine, blob.Info{Kind: blob.Image}, 0)
	if err != nil {
		t.Fatal(err)
	}
	path, release, err := s.File(t.Context(), st.Manifest, nil)
	if err != nil {
		t.Fatal(err)
	}
	one, _ := os.Stat(mine)
	two, err := os.Stat(path)
	if err != nil || !os.SameFile(one, two) {
		t.Errorf("the store has a copy (%v)", err)
	}
	release()
	// An image that shares a block keeps the store's file, which then is mostly of no use, and must
	// not become a sieve all the same.
	later := putImage(t, s, append(noise(9, blob.BlockSize), blockOf(b, 5)...))
	if err := errors.Join(s.Pin(t.Context(), "later", later.Manifest), s.Pin(t.Context(), "other", other.Manifest)); err != nil {
		t.Fatal(err)
	}
	gc(t, s, GCOptions{All: true})
	if got, err := os.ReadFile(mine); err != nil || !bytes.Equal(got, b) {
		t.Fatalf("gc changed a file that is not the store's alone (%v)", err)
	}
	want := append(noise(9, blob.BlockSize), blockOf(b, 5)...)
	if got := readBlob(t, s, later.Manifest, nil); !bytes.Equal(got, want) {
		t.Error("the block that is shared is lost")
	}
	if u, err := s.Usage(t.Context()); err != nil || u.Bytes < 0 || u.Bytes > int64(4*len(b)) {
		t.Errorf("usage %+v, %v", u, err)
	}
}

// unreadableDisk reads nothing of one file, for a reason that says nothing about its bytes.
type unreadableDisk struct {
	disk.OS
	path atomic.Pointer[string]
}

func (u *unreadableDisk) Open(name string, write bool) (disk.File, error) {
	f, err := u.OS.Open(name, write)
	if err != nil {
		return nil, err
	}
	return unreadableFile{f, u, name}, nil
}

type unreadableFile struct {
	disk.File
	d    *unreadableDisk
	name string
}

func (u unreadableFile) ReadAt(p []byte, off int64) (int, error) {
	if deaf := u.d.path.Load(); deaf != nil && filepath.Base(*deaf) == filepath.Base(u.name) {
		return 0, &fs.PathError{Op: "read", Path: u.name, Err: syscall.ENOMEM}
	}
	return u.File.ReadAt(p, off)
}

// A host that cannot read just now has lost nothing: no block is asked for again and written over.
func TestHostErrorIsNotDamage(t *testing.T) {
	b := noise(5, 3*blob.BlockSize)
	src, d := otherStore(t, b)
	dir := t.TempDir()
	s := openStore(t, dir)
	l := fillImage(t, s, d, src)
	if err := l.Need(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	path := l.Path()
	s.Close() // what was not flushed is not claimed, so it is looked at
	deaf := &unreadableDisk{}
	s = openStore(t, dir, func(c *Config) { c.FS = deaf })
	l = fillImage(t, s, d, src)
	deaf.path.Store(&path)
	before := src.total()
	if err := l.Need(t.Context(), 1); !errors.Is(err, syscall.ENOMEM) || src.total() != before {
		t.Errorf("%v, asked %d times", err, src.total()-before)
	}
	deaf.path.Store(nil)
	if err := l.Need(t.Context(), 1); err != nil || src.total() != before {
		t.Errorf("%v, asked %d times", err, src.total()-before)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// Nothing can have come into a file that was made a moment ago: looking at all of it would take as
// long as getting it over a fast link.
func TestLazyImageDoesNotReadHoles(t *testing.T) {
	src, d := otherStore(t, noise(6, 4*blob.BlockSize))
	deaf := &unreadableDisk{}
	s := openStore(t, t.TempDir(), func(c *Config) { c.FS = deaf })
	l := fillImage(t, s, d, src)
	path := l.Path()
	deaf.path.Store(&path)
	if err := l.Complete(t.Context(), nil); err != nil {
		t.Error(err)
	}
	deaf.path.Store(nil)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOpenLazyImageErrorHoldsNothing has a full disk keep the store from remembering that the
// image was used: the caller has nothing to close, so gc must be free to take the file.
func TestOpenLazyImageErrorHoldsNothing(t *testing.T) {
	d := &faultDisk{}
	s := openStore(t, t.TempDir(), func(c *Config) { c.FS = d })
	st := putImage(t, s, diskImage(1, 4))
	meta, _, err := s.index.Meta(st.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	d.full = true
	if _, err := s.OpenLazyImage(t.Context(), st.Manifest, nil); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Fatalf("code %s: %v", agentbox.CodeOf(err), err)
	}
	if s.guard.isHeld(st.Manifest) || s.guard.isWritten(meta.File) {
		t.Error("it is still held")
	}
}
