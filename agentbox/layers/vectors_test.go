package layers

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
	"agentbox/cachestore/blob"
	"agentbox/tools/suites/golden"
	"agentbox/vmm/image"
)

// What files hold in the examples of testdata.
var (
	exampleRemotes = []string{"/srv/images", "https://images.example/agentbox"}
	exampleList    = []image.Image{{
		Digest: blob.Sum([]byte("image")), Name: "apt:bookworm +git", Source: "apt:bookworm", Platform: "linux/amd64", Packages: []string{"git"},
		Size: 3*blob.BlockSize + 100, Created: time.Unix(1700000000, 0).UTC(), Key: "0123456789abcdef0123456789abcdef", Versions: []string{"git=1:2.39.5-0+deb12u2"},
		Lazy: &image.Lazy{Manifest: blob.Sum([]byte("manifest"))},
	}}
	exampleIngredients = caches.Ingredients{
		Version: caches.Version, Image: agentbox.Digest{1}, Arch: "amd64", User: "you", Setup: []string{"make deps"}, Caches: []string{"~/go/pkg/mod"},
		Lockfiles: map[string]agentbox.Digest{"go.sum": blob.Sum([]byte("go.sum"))},
	}
)

func TestVectors(t *testing.T) {
	b, err := encode(remotesFile{remotesVersion, exampleRemotes})
	if err != nil {
		t.Fatal(err)
	}
	if got := decodeRemotes(golden.Same(t, "places.json", b)); !slices.Equal(got, exampleRemotes) {
		t.Errorf("%q", got)
	}
	if b, err = encode(index{indexVersion, exampleList}); err != nil {
		t.Fatal(err)
	}
	if list, err := decodeIndex(golden.Same(t, indexName, b)); err != nil || len(list) != 1 || *list[0].Lazy != *exampleList[0].Lazy {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestVectorOfABundle: the key is in it, so a key that is computed in another way is noticed too.
func TestVectorOfABundle(t *testing.T) {
	made := caches.Result{Key: exampleIngredients.Key(), Ingredients: exampleIngredients, Parts: []caches.Part{caches.Dirs, caches.Runtime}}
	files := map[caches.Part]*os.File{}
	for part, text := range map[caches.Part]string{caches.Dirs: "a tar archive", caches.Runtime: "another"} {
		name := filepath.Join(t.TempDir(), string(part))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[part] = f
	}
	r, err := newBundle(made, files)
	if err != nil {
		t.Fatal(err)
	}
	written, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	b := golden.Same(t, "setup.bundle", written)
	h, body, err := readHead(bytes.NewReader(b), int64(len(b)))
	if err != nil || h.Made.Key != made.Key || h.Made.Ingredients.Key() != made.Key || string(b[body:]) != "a tar archiveanother" {
		t.Errorf("%+v at %d, %v", h, body, err)
	}
}

func FuzzRemotes(f *testing.F) {
	b, err := encode(remotesFile{remotesVersion, exampleRemotes})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		list := decodeRemotes(b)
		if len(list) > maxRemotes {
			t.Fatalf("%d remotes", len(list))
		}
		for _, remote := range list {
			_, _ = openSource(remote) // whatever it says, it is a remote or an error
		}
	})
}
