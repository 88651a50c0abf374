package images

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/vmm/image"
)

// The hint of a damaged image says `image rm`, so that has to work, whatever is damaged.
func TestRemoveDamagedImage(t *testing.T) {
	overwrite := func(text string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, "image.json"), []byte(text), 0o600) }
	}
	for name, damage := range map[string]func(dir string) error{
		"file gone":             func(dir string) error { return os.Remove(filepath.Join(dir, "image.erofs")) },
		"file cut":              func(dir string) error { return os.Truncate(filepath.Join(dir, "image.erofs"), 100) },
		"description cut":       overwrite(`{"dig`),
		"description of others": overwrite(`{"digest":"sha256:` + agentbox.Digest{1}.Hex() + `","name":"NAME"}`),
		"description emptied":   overwrite(""),
		"description not a file": func(dir string) error {
			file := filepath.Join(dir, "image.json")
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.Mkdir(file, 0o700)
		},
	} {
		for _, ref := range []func(image.Image) string{
			func(img image.Image) string { return img.Digest.String() }, func(img image.Image) string { return img.Digest.Short() },
			func(img image.Image) string { return img.Name },
		} {
			store, img := oneImage(t)
			if err := damage(filepath.Dir(img.Path)); err != nil {
				t.Fatal(err)
			}
			rooms := New(Config{Store: store, Log: slog.New(slog.DiscardHandler), UsedBy: func(agentbox.Digest) []string { return nil }})
			got, err := rooms.Remove(t.Context(), api.ImageRef{Image: ref(img)}, nil)
			if err != nil || got.Digest != img.Digest {
				t.Errorf("%s, by %q: %s, %v", name, ref(img), got.Digest, err)
			}
			if _, err := os.Stat(filepath.Dir(img.Path)); !os.IsNotExist(err) {
				t.Errorf("%s, by %q: it is still there (%v)", name, ref(img), err)
			}
		}
	}
}

// A damaged image that a box runs from stays, as any other does.
func TestRemoveDamagedImageInUse(t *testing.T) {
	store, img := oneImage(t)
	if err := os.Remove(img.Path); err != nil {
		t.Fatal(err)
	}
	used := func(d agentbox.Digest) []string {
		if d == img.Digest {
			return []string{"box"}
		}
		return nil
	}
	rooms := New(Config{Store: store, Log: slog.New(slog.DiscardHandler), UsedBy: used})
	if _, err := rooms.Remove(t.Context(), api.ImageRef{Image: img.Digest.Short()}, nil); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Error(err)
	}
}

// unforgetting is a ChunkStore that cannot remove anything.
type unforgetting struct{ ChunkStore }

func (unforgetting) Forget(context.Context, agentbox.Digest) error {
	return errors.New("the disk fails")
}

// An image of a revoked member whose removal failed is tried again, so it must not count as gone.
func TestFailedDrop(t *testing.T) {
	store, img := oneImage(t)
	i := New(Config{Store: store, ChunkStore: unforgetting{}, Log: slog.New(slog.DiscardHandler), UsedBy: func(agentbox.Digest) []string { return nil }})
	if i.Drop(t.Context(), img.Digest) {
		t.Error("it counts as gone")
	}
}

// oneImage makes a store with one image in it.
func oneImage(t *testing.T) (*image.Store, image.Image) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	source, err := random.Image(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(source); err != nil {
		t.Fatal(err)
	}
	store, err := image.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	img, err := store.Ensure(t.Context(), image.Recipe{Source: "oci:" + dir}, agentbox.Digest{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store, img
}
