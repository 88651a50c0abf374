package images

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/vmm/image"
)

// recorder is a ChunkStore that remembers what was to be kept, and says what it was told to.
type recorder struct {
	ChunkStore
	kept []agentbox.Digest
	says map[agentbox.Digest]error
}

func (r *recorder) Add(_ context.Context, img image.Image, rate int64) (agentbox.Digest, error) {
	if rate <= 0 {
		return agentbox.Digest{}, errors.New("in a hurry")
	}
	r.kept = append(r.kept, img.Digest)
	return img.Digest, r.says[img.Digest]
}

func TestStoreImages(t *testing.T) {
	dir := t.TempDir()
	store, err := image.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	o := &recorder{}
	i := New(Config{Store: store, ChunkStore: o, Log: slog.New(slog.DiscardHandler)})
	now := time.Now()
	ahead, bad, fresh := agentbox.Digest{1}, agentbox.Digest{2}, agentbox.Digest{3}
	put := func(d agentbox.Digest, made time.Time) {
		dir := filepath.Join(dir, "images", d.Hex())
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		about := `{"digest":"` + d.String() + `","created":"` + made.Format(time.RFC3339) + `"}`
		for name, text := range map[string]string{"image.json": about, "checked.json": "{}"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(ahead, now.AddDate(1, 0, 0)) // made before the clock was set right
	put(bad, now.Add(-2*time.Hour))
	o.says = map[agentbox.Digest]error{bad: agentbox.Errorf(agentbox.Corrupt, "rotten")}
	seen := i.storeImages(nil)
	if len(o.kept) > 0 {
		t.Errorf("kept at once: %v", o.kept)
	}
	put(fresh, now.AddDate(-1, 0, 0)) // and this one was just copied here
	seen = i.storeImages(seen)
	if !slices.Equal(o.kept, []agentbox.Digest{ahead, bad}) || len(seen) != 3 {
		t.Errorf("%v of %v", o.kept, seen)
	}
	for d, want := range map[agentbox.Digest]bool{ahead: true, bad: false} {
		if _, err := os.Stat(filepath.Join(dir, "images", d.Hex(), "checked.json")); (err == nil) != want {
			t.Errorf("image %s is trusted: %v", d.Short(), err == nil)
		}
	}
}
