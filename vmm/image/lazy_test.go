package image

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// pulled is what another store says of an image, and a file with the image's bytes.
func pulled(t *testing.T) (img Image, file string, r Recipe) {
	t.Helper()
	from := newStore(t)
	img, r = ensureLayout(t, from, "pulled")
	file = img.Path
	img.Path, img.Lazy = "", &Lazy{Manifest: agentbox.Digest{1}, From: "/elsewhere"}
	return img, file, r
}

func TestLazyImageCompletes(t *testing.T) {
	img, file, r := pulled(t)
	s := newStore(t)
	got, err := s.AddLazy(t.Context(), img)
	if err != nil || got.Lazy == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	for range 2 {
		if got, err := s.Get(img.Digest.String()); err != nil || got.Lazy == nil || got.Lazy.From != "/elsewhere" {
			t.Errorf("%+v, %v", got, err)
		}
		if s, err = Open(t.Context(), s.dir); err != nil { // as a new daemon does
			t.Fatal(err)
		}
	}
	if got, err := s.Ensure(t.Context(), r, none, nil); err != nil || got.Digest != img.Digest {
		t.Errorf("the recipe gives %s, %v", got.Digest.Short(), err)
	}
	var missing *NotHereError
	if _, err := s.Derive(t.Context(), got, Derivation{Key: agentbox.Digest{2}}, nil); !errors.As(err, &missing) || missing.Image.Digest != img.Digest {
		t.Errorf("derived of what is not here: %v", err)
	}
	for range 2 {
		if err := s.Completed(t.Context(), img.Digest, file); err != nil {
			t.Fatal(err)
		}
	}
	if got, err = s.Get(img.Digest.String()); err != nil || got.Lazy != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if d, err := agentbox.DigestFile(got.Path); err != nil || d != img.Digest {
		t.Errorf("%s, %v", d.Short(), err)
	}
	layer := func() (io.ReadCloser, error) { return os.Open(os.DevNull) }
	if _, err := s.Derive(t.Context(), got, Derivation{Key: agentbox.Digest{2}, Layers: []func() (io.ReadCloser, error){layer}}, nil); errors.As(err, &missing) {
		t.Error(err)
	}
	if got, err := s.AddLazy(t.Context(), img); err != nil || got.Lazy != nil {
		t.Errorf("what is here was replaced by what is not: %+v, %v", got, err)
	}
}

// Bits that flip change no time of a file: somebody has to say that an image is not to be trusted.
func TestDamagedImageIsRepaired(t *testing.T) {
	s := newStore(t)
	img, _ := ensureLayout(t, s, "damaged")
	good, err := os.ReadFile(img.Path)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(other, good, 0o600); err != nil {
		t.Fatal(err)
	}
	was, err := os.Stat(img.Path)
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(good)
	bad[len(bad)/2] ^= 1
	if err := errors.Join(os.WriteFile(img.Path, bad, 0o600), os.Chtimes(img.Path, was.ModTime(), was.ModTime())); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing left to forget
		if err := s.Distrust(img.Digest); err != nil {
			t.Fatal(err)
		}
	}
	var damaged *DamagedError
	if _, err := s.Get(img.Digest.String()); !errors.As(err, &damaged) || damaged.Digest != img.Digest {
		t.Fatal(err)
	}
	wantCode(t, s.Completed(t.Context(), img.Digest, img.Path), agentbox.Corrupt, "another image")
	if err := s.Completed(t.Context(), img.Digest, other); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(img.Digest.String()); err != nil || got.Lazy != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := os.ReadFile(img.Path); err != nil || !slices.Equal(got, good) {
		t.Error("other bytes", err)
	}
}

func TestWrongRemoteImage(t *testing.T) {
	img, _, _ := pulled(t)
	s := newStore(t)
	if _, err := s.AddLazy(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.Completed(t.Context(), img.Digest, other), agentbox.Corrupt, "/elsewhere")
	if got, err := s.Get(img.Digest.String()); err != nil || got.Lazy == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLazyImageIsVerified(t *testing.T) {
	img, _, _ := pulled(t)
	s := newStore(t)
	bad := img
	bad.Lazy = nil
	_, err := s.AddLazy(t.Context(), bad)
	wantCode(t, err, agentbox.Invalid, "names no remote")
	bad = img
	bad.Key = "../../escape"
	if _, err := s.AddLazy(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "..", "escape")); err == nil {
		t.Error("a key from elsewhere became a path")
	}
}

func TestRemoveDropsRecipe(t *testing.T) {
	s := newStore(t)
	img := Image{Digest: agentbox.Digest{7}, Size: 1, Key: strings.Repeat("a", 32), Lazy: &Lazy{Manifest: agentbox.Digest{8}, From: "team"}}
	other := img
	other.Digest = agentbox.Digest{9}
	for _, i := range []Image{img, other} { // the recipe is the first one's
		if _, err := s.AddLazy(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	for _, left := range []struct {
		removed Image
		recipes int
	}{{other, 1}, {img, 0}} {
		if err := s.Remove(t.Context(), left.removed.Digest); err != nil {
			t.Fatal(err)
		}
		names, err := os.ReadDir(filepath.Join(s.dir, recipesDir))
		if err != nil || len(names) != left.recipes {
			t.Errorf("%d recipes, %v", len(names), err)
		}
	}
}
