package image

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentbox/agentbox"
)

func ensureLayout(t *testing.T, s *Store, mark string) (Image, Recipe) {
	t.Helper()
	r := Recipe{Source: "oci:" + testLayout(t, testImage(t, mark))}
	img, err := s.Ensure(t.Context(), r, none, nil)
	if err != nil {
		t.Fatal(err)
	}
	return img, r
}

func TestGetListRemove(t *testing.T) {
	s := newStore(t)
	one, r := ensureLayout(t, s, "one")
	two, _ := ensureLayout(t, s, "two")
	for _, ref := range []string{one.Digest.String(), one.Digest.Hex(), one.Digest.Short(), "sha256:" + one.Digest.Hex()[:8], r.Source} {
		if got, err := s.Get(ref); err != nil || got.Digest != one.Digest {
			t.Errorf("Get(%q): %s, %v", ref, got.Digest, err)
		}
	}
	for _, ref := range []string{"", "one", "ffffffffffff", one.Digest.Hex()[:3]} {
		_, err := s.Get(ref)
		wantCode(t, err, agentbox.NotFound, "no image")
	}
	if list, err := s.List(); err != nil || len(list) != 2 {
		t.Errorf("List: %d images, %v", len(list), err)
	}
	if err := s.Remove(t.Context(), one.Digest); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.Remove(t.Context(), one.Digest), agentbox.NotFound, one.Digest.Short())
	if list, err := s.List(); err != nil || len(list) != 1 || list[0].Digest != two.Digest {
		t.Errorf("after Remove: %v, %v", list, err)
	}
	again, err := s.Ensure(t.Context(), r, one.Digest, nil)
	if err != nil || again.Digest != one.Digest {
		t.Errorf("made again: %s, %v", again.Digest, err)
	}
}

func TestDamagedImage(t *testing.T) {
	damage := map[string]func(t *testing.T, path string){
		"flipped byte": func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteAt([]byte("!"), 5000)
				f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"cut": func(t *testing.T, path string) {
			if err := os.Truncate(path, 4096); err != nil {
				t.Fatal(err)
			}
		},
		"file gone": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"description": func(t *testing.T, path string) {
			if err := os.WriteFile(filepath.Join(filepath.Dir(path), imageMetaName), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, spoilImage := range damage {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			img, r := ensureLayout(t, s, "x")
			spoilImage(t, img.Path)
			_, err := s.Ensure(t.Context(), r, img.Digest, nil)
			wantCode(t, err, agentbox.Corrupt, img.Digest.Short())
			_, err = s.Ensure(t.Context(), r, none, nil)
			wantCode(t, err, agentbox.Corrupt, img.Digest.Short())
			_, err = s.Get(img.Digest.String())
			if name != "description" { // an image without one is not listed
				wantCode(t, err, agentbox.Corrupt, img.Digest.Short())
			}
			// What the hint says must work.
			if err := s.Remove(t.Context(), img.Digest); err != nil {
				t.Fatal(err)
			}
			if again, err := s.Ensure(t.Context(), r, img.Digest, nil); err != nil || again.Digest != img.Digest {
				t.Errorf("made again: %s, %v", again.Digest, err)
			}
		})
	}
}

func TestTouchedImageIsVerified(t *testing.T) {
	s := newStore(t)
	img, _ := ensureLayout(t, s, "x")
	if err := os.Chtimes(img.Path, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(img.Digest.String()); err != nil {
		t.Error(err)
	}
	was, err := os.ReadFile(filepath.Join(s.imageDir(img.Digest), imageCheckName))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(img.Digest.String()); err != nil {
		t.Error(err)
	}
	if now, _ := os.ReadFile(filepath.Join(s.imageDir(img.Digest), imageCheckName)); string(now) != string(was) {
		t.Error("an unchanged image was verified again")
	}
}

func TestConcurrentEnsureBuildsOnce(t *testing.T) {
	dir := t.TempDir()
	r := Recipe{Source: "oci:" + testLayout(t, testImage(t, "x"))}
	var unpacked atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		s, err := Open(t.Context(), dir) // as another process would
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			img, err := s.Ensure(t.Context(), r, none, func(e agentbox.Event) {
				if e.Detail == "hash" {
					unpacked.Add(1)
				}
			})
			if err != nil {
				t.Error(err)
			} else if _, err := os.Stat(img.Path); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := unpacked.Load(); n != 1 {
		t.Errorf("built %d times", n)
	}
}

func TestOpenRemovesAbandonedBuilds(t *testing.T) {
	s := newStore(t)
	img, _ := ensureLayout(t, s, "x")
	living, err := s.newBuild(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer living.close()
	dead := filepath.Join(s.dir, tmpDir, "build-dead")
	half := filepath.Join(s.dir, imagesDir, agentbox.Digest{9}.Hex())
	for _, d := range []string{dead, half} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, imageFileName), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(t.Context(), s.dir); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dead, half} {
		if _, err := os.Stat(d); !os.IsNotExist(err) {
			t.Errorf("%s is still there (%v)", d, err)
		}
	}
	if _, err := os.Stat(living.dir); err != nil {
		t.Errorf("a living build was cleared: %v", err)
	}
	if _, err := s.Get(img.Digest.String()); err != nil {
		t.Error(err)
	}
}

func BenchmarkEnsurePinned(b *testing.B) {
	s, err := Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	build, err := s.newBuild(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	build.image = Image{Name: "x", Source: "apt:bookworm", Key: "k"}
	img, err := s.finish(b.Context(), build)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Ensure(b.Context(), Recipe{}, img.Digest, nil); err != nil {
			b.Fatal(err)
		}
	}
}
