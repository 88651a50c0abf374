package layers

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
	"agentbox/cachestore"
)

func newResults(t *testing.T) (SetupResults, *cachestore.Store) {
	t.Helper()
	return newResultsIn(t, t.TempDir())
}

func newResultsIn(t *testing.T, dir string) (SetupResults, *cachestore.Store) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := cachestore.Open(t.Context(), cachestore.Config{Dir: dir, Key: key, ReserveFile: -1, KeepFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return SetupResults{Store: func(context.Context) (*cachestore.Store, error) { return store, nil }}, store
}

func made(lock byte) caches.Result {
	in := caches.Ingredients{Image: agentbox.Digest{1}, Arch: "amd64", Lockfiles: map[string]agentbox.Digest{"go.sum": {lock}}}
	return caches.Result{Key: in.Key(), Ingredients: in, Parts: []caches.Part{caches.Dirs, caches.Runtime, caches.Workspace}}
}

func publish(t *testing.T, s SetupResults, m caches.Result, texts ...string) error {
	t.Helper()
	files := map[caches.Part]string{}
	for i, part := range m.Parts {
		files[part] = filepath.Join(t.TempDir(), string(part))
		if err := os.WriteFile(files[part], []byte(texts[i]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s.Publish(t.Context(), m, files)
}

func TestSetupResultRoundTrip(t *testing.T) {
	s, _ := newResults(t)
	first, second := made(1), made(2)
	if _, err := s.Find(t.Context(), first.Key); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Fatalf("nothing published: %v", err)
	}
	large := string(bytes.Repeat([]byte("0123456789abcdef"), 1<<18))
	if err := publish(t, s, first, "the caches", large, ""); err != nil {
		t.Fatal(err)
	}
	got, err := s.Find(t.Context(), first.Key)
	if err != nil || got.Key != first.Key || got.Ingredients.Key() != first.Key {
		t.Fatalf("%+v, %v", got, err)
	}
	for part, want := range map[caches.Part]string{caches.Dirs: "the caches", caches.Runtime: large, caches.Workspace: ""} {
		r, err := s.Open(t.Context(), got.Manifest, part)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil || string(b) != want {
			t.Errorf("%s: %d bytes, %v", part, len(b), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Find(t.Context(), second.Key); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("another key: %v", err)
	}
	if near, err := s.Nearest(t.Context(), second.Ingredients.LookupKey()); err != nil || near.Key != first.Key {
		t.Errorf("nearest: %v, %v", near.Key, err)
	}
	if _, err := s.Nearest(t.Context(), agentbox.Digest{9}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("nearest of another family: %v", err)
	}
}

func TestFirstSetupResultWins(t *testing.T) {
	s, store := newResults(t)
	if err := publish(t, s, made(1), "a", "b", "c"); err != nil {
		t.Fatal(err)
	}
	if err := publish(t, s, made(1), "a", "b", "something else"); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Fatalf("a second result: %v", err)
	}
	if alarms, err := store.Alarms(); err != nil || len(alarms) != 1 {
		t.Errorf("alarms: %v, %v", alarms, err)
	}
	first, err := s.Find(t.Context(), made(1).Key)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is no such result
		if err := s.Forget(t.Context(), first.Manifest); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Find(t.Context(), made(1).Key); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("forgotten: %v", err)
	}
	if err := publish(t, s, made(1), "a", "b", "something else"); err != nil {
		t.Errorf("after it was forgotten: %v", err)
	}
	// A box that found the first one gets no part of the second.
	if r, err := s.Open(t.Context(), first.Manifest, caches.Workspace); err == nil {
		if b, err := io.ReadAll(r); err != nil || string(b) != "c" {
			t.Errorf("its workspace is %q, %v", b, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	} else if agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Error(err)
	}
	second, err := s.Find(t.Context(), made(1).Key)
	if err != nil || second.Manifest == first.Manifest {
		t.Errorf("%s after %s, %v", second.Manifest.Short(), first.Manifest.Short(), err)
	}
	if err := s.Forget(t.Context(), first.Manifest); err != nil {
		t.Error(err)
	}
	if _, err := s.Find(t.Context(), made(1).Key); err != nil {
		t.Errorf("the second was forgotten for the first: %v", err)
	}
}

// flip changes the first byte of each bundle in the packs of a store.
func flip(t *testing.T, dir string) {
	t.Helper()
	flipped := 0
	err := filepath.WalkDir(filepath.Join(dir, "packs"), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if at := bytes.Index(b, []byte(bundleMagic)); err == nil && at >= 0 {
			flipped++
			b[at] ^= 1
			err = os.WriteFile(path, b, 0o600)
		}
		return err
	})
	if err != nil || flipped == 0 {
		t.Fatalf("%d bundles, %v", flipped, err)
	}
}

// The store takes away what is damaged, and its name stays: what is found must say so each time.
func TestDamagedResult(t *testing.T) {
	dir := t.TempDir()
	s, _ := newResultsIn(t, dir)
	random := make([]byte, 1<<20) // which the store does not compress
	rand.Read(random)
	if err := publish(t, s, made(1), string(random), "b", "c"); err != nil {
		t.Fatal(err)
	}
	flip(t, dir)
	for range 2 {
		damaged, err := s.Find(t.Context(), made(1).Key)
		if agentbox.CodeOf(err) != agentbox.Corrupt || damaged.Manifest.IsZero() {
			t.Fatalf("found: %s, %v", damaged.Manifest.Short(), err)
		}
		if _, err := s.Nearest(t.Context(), made(2).Ingredients.LookupKey()); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("nearest: %v", err)
		}
		if _, err := s.Open(t.Context(), damaged.Manifest, caches.Dirs); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("opened: %v", err)
		}
	}
	damaged, _ := s.Find(t.Context(), made(1).Key)
	if err := s.Forget(t.Context(), damaged.Manifest); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find(t.Context(), made(1).Key); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("forgotten: %v", err)
	}
	if err := publish(t, s, made(1), "a", "b", "another c"); err != nil {
		t.Errorf("made again: %v", err)
	}
}

func FuzzReadHead(f *testing.F) {
	empty := []byte(`{"version":1,"made":{"parts":["caches"]},"sizes":[0]}`)
	f.Add(append(binary.BigEndian.AppendUint32([]byte(bundleMagic), uint32(len(empty))), empty...), int64(0))
	long := []byte(`{"version":1,"made":{"parts":["caches","runtime"]},"sizes":[9223372036854775807,9223372036854775807]}`)
	f.Add(append(binary.BigEndian.AppendUint32([]byte(bundleMagic), uint32(len(long))), long...), int64(1<<40))
	f.Add([]byte(bundleMagic+"\xff\xff\xff\xff"), int64(12))
	f.Fuzz(func(t *testing.T, b []byte, more int64) {
		size := int64(len(b)) + max(0, more)%(1<<50)
		h, body, err := readHead(bytes.NewReader(b), size)
		if err != nil {
			if agentbox.CodeOf(err) != agentbox.Corrupt {
				t.Errorf("not called damaged: %v", err)
			}
			return
		}
		at := body
		for _, n := range h.Sizes {
			if n < 0 || at > size-n {
				t.Fatalf("part of %d bytes at %d of %d", n, at, size)
			}
			at += n
		}
		if at != size {
			t.Errorf("%d bytes belong to no part", size-at)
		}
	})
}

// TestResultOfOtherIngredientsIsCorrupt has a member publish a result under a key that is not that
// of its ingredients: it would be found in place of another's.
func TestResultOfOtherIngredientsIsCorrupt(t *testing.T) {
	s, _ := newResults(t)
	forged := made(1)
	forged.Key = made(2).Key
	forged.Ingredients.User = "mallory"
	if err := publish(t, s, forged, "a", "b", "c"); err != nil {
		t.Fatal(err)
	}
	got, err := s.Find(t.Context(), made(2).Key)
	if agentbox.CodeOf(err) != agentbox.Corrupt || got.Manifest.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	if err := s.Forget(t.Context(), got.Manifest); err != nil {
		t.Error(err)
	}
	if _, err := s.Find(t.Context(), made(2).Key); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Error(err)
	}
}
