package layers

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/vmm/image"
)

func imagesIn(t *testing.T, dir string) *Images {
	t.Helper()
	s, err := cachestore.Open(t.Context(), cachestore.Config{Dir: filepath.Join(dir, "store"), Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), ReserveFile: -1, Grace: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &Images{
		Store:   func(context.Context) (*cachestore.Store, error) { return s, nil },
		Remotes: &Remotes{File: filepath.Join(dir, "places.json")},
	}
}

// someImage is one of four blocks, in dir.
func someImage(t *testing.T, dir string) (img image.Image, content []byte) {
	t.Helper()
	content = make([]byte, 3*blob.BlockSize+100)
	rand.NewChaCha8([32]byte{1}).Read(content)
	img = image.Image{Digest: blob.Sum(content), Name: "test", Size: int64(len(content)), Path: filepath.Join(dir, "image")}
	if err := os.WriteFile(img.Path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return img, content
}

// exported makes an image of four blocks and exports it with a trace.
func exported(t *testing.T) (img image.Image, content []byte, dir string) {
	t.Helper()
	base := t.TempDir()
	img, content = someImage(t, base)
	dir = filepath.Join(base, "export")
	for range 2 { // again changes nothing
		if err := imagesIn(t, t.TempDir()).Export(t.Context(), img, []uint32{2, 0}, dir, nil); err != nil {
			t.Fatal(err)
		}
	}
	return img, content, dir
}

func TestExportAndImport(t *testing.T) {
	img, content, dir := exported(t)
	site := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer site.Close()
	for _, from := range []string{dir, site.URL, site.URL + "/"} {
		i := imagesIn(t, t.TempDir())
		list, err := i.List(t.Context(), from)
		if err != nil || len(list) != 1 || list[0].Digest != img.Digest || list[0].Lazy.From != from {
			t.Fatalf("%s: %+v, %v", from, list, err)
		}
		if err := i.Prepare(t.Context(), list[0]); err != nil {
			t.Fatal(err)
		}
		f, err := i.OpenLazyImage(t.Context(), list[0])
		if err != nil {
			t.Fatal(err)
		}
		if told := f.ReadFirst(); len(told) != 2 || told[0] != 2 {
			t.Errorf("trace %v", told)
		}
		if err := f.Need(t.Context(), 3); err != nil {
			t.Error(err)
		}
		if n, err := i.LocalBytes(t.Context(), list[0]); err != nil || n > 2*blob.BlockSize {
			t.Errorf("%d bytes are here after one block (%v)", n, err)
		}
		if err := f.Complete(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(f.Path()); err != nil || !bytes.Equal(got, content) {
			t.Errorf("what came differs (%v)", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDamagedImageIsRepairedFromExport(t *testing.T) {
	i := imagesIn(t, t.TempDir())
	base := t.TempDir()
	img, content := someImage(t, base)
	if _, _, err := i.Repair(t.Context(), img.Digest); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Fatalf("an image that the store does not know: %v", err)
	}
	dir := filepath.Join(base, "export")
	if err := i.Export(t.Context(), img, nil, dir, nil); err != nil {
		t.Fatal(err)
	}
	damage := map[string]func() error{
		"a flipped bit": func() error {
			bad := bytes.Clone(content)
			bad[blob.BlockSize+7] ^= 1
			return os.WriteFile(img.Path, bad, 0o600) // in place: the store's file is another name of it
		},
		"a short file": func() error { return os.Truncate(img.Path, blob.BlockSize+1) },
	}
	for what, hurt := range damage {
		if err := hurt(); err != nil {
			t.Fatal(err)
		}
		path, release, err := i.Repair(t.Context(), img.Digest)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		release()
		for _, file := range []string{path, img.Path} {
			if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s: %s is not repaired (%v)", what, file, err)
			}
		}
	}
	if err := errors.Join(os.RemoveAll(dir), damage["a flipped bit"]()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := i.Repair(t.Context(), img.Digest); agentbox.CodeOf(err) != agentbox.NotFound && agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("repaired out of nothing: %v", err)
	}
}

func TestAddChecksDigest(t *testing.T) {
	i := imagesIn(t, t.TempDir())
	img, content := someImage(t, t.TempDir())
	wrong := img
	wrong.Digest[0] ^= 1
	if _, err := i.Add(t.Context(), wrong, 0); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("other bytes than the digest says: %v", err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("enough"))
	defer cancel()
	if _, err := i.Add(ctx, img, 1<<10); err == nil || err.Error() != "enough" {
		t.Errorf("2 MiB at a kilobyte a second: %v", err)
	}
	for range 2 {
		if _, err := i.Add(t.Context(), img, 1<<30); err != nil {
			t.Fatal(err)
		}
	}
	s, err := i.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Nothing lies there twice, and when it is forgotten nothing is left, new as it is.
	if u, err := s.Usage(t.Context()); err != nil || u.Bytes > int64(len(content))+64<<10 {
		t.Errorf("%+v, %v", u, err)
	}
	if err := errors.Join(os.Remove(img.Path), i.Forget(t.Context(), img.Digest)); err != nil {
		t.Fatal(err)
	}
	if u, err := s.Usage(t.Context()); err != nil || u.Bytes > 64<<10 || u.Manifests != 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestImportIntoNewStore(t *testing.T) {
	_, _, dir := exported(t)
	i := imagesIn(t, t.TempDir())
	list, err := i.List(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := i.OpenLazyImage(t.Context(), list[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Need(t.Context(), 1), f.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := i.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.GC(t.Context(), cachestore.GCOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	if n, err := i.LocalBytes(t.Context(), list[0]); err != nil || n == 0 {
		t.Errorf("%d bytes are left of what came (%v)", n, err)
	}
}

func TestInvalidTraceIsOmitted(t *testing.T) {
	img, _ := someImage(t, t.TempDir())
	i, dir := imagesIn(t, t.TempDir()), t.TempDir()
	if err := i.Export(t.Context(), img, []uint32{1, 1 << 30}, dir, nil); err != nil {
		t.Fatal(err)
	}
	list, err := i.List(t.Context(), dir)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := imagesIn(t, t.TempDir()).Prepare(t.Context(), list[0]); err != nil {
		t.Error(err)
	}
}

func TestForgedIndex(t *testing.T) {
	img, _, dir := exported(t)
	i := imagesIn(t, t.TempDir())
	list, err := i.List(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	bad := list[0]
	bad.Size++
	if err := i.Prepare(t.Context(), bad); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("another size: %v", err)
	}
	bad = list[0]
	bad.Lazy = &image.Lazy{Manifest: agentbox.Digest{9}, From: dir}
	if err := i.Prepare(t.Context(), bad); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("a manifest that is not there: %v", err)
	}
	if err := i.Forget(t.Context(), img.Digest); err != nil {
		t.Errorf("what was never begun cannot be forgotten: %v", err)
	}
}

func TestInvalidRemotes(t *testing.T) {
	i := imagesIn(t, t.TempDir())
	for _, from := range []string{"", "relative", "ftp://example.com/", "http://", "://"} {
		if _, err := i.List(t.Context(), from); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%q: %v", from, err)
		}
	}
	if _, err := i.List(t.Context(), t.TempDir()); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("an empty directory: %v", err)
	}
	site := httptest.NewServer(http.NotFoundHandler())
	if _, err := i.List(t.Context(), site.URL); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("an empty site: %v", err)
	}
	site.Close()
	if _, err := i.List(t.Context(), site.URL); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("a site that is gone: %v", err)
	}
}

// What a web server says an image is called is shown to its user.
func TestIndexMustBeText(t *testing.T) {
	evil := exampleList[0]
	evil.Name = "apt:bookworm\x1b[2J"
	b, err := encode(index{indexVersion, []image.Image{evil}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodeIndex(b); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("a name that clears the screen: %v", err)
	}
}

func FuzzIndex(f *testing.F) {
	good, err := encode(index{indexVersion, exampleList})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1,"images":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodeIndex(b)
		if err != nil && agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Error(err)
		}
		for _, img := range list {
			if img.Lazy == nil || img.Lazy.Manifest.IsZero() || img.Size <= 0 || img.Digest.IsZero() || checkText(img) != nil {
				t.Errorf("%+v", img)
			}
		}
	})
}
