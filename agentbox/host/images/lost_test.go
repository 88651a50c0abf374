package images

import (
	"context"
	"log/slog"
	"testing"

	"agentbox/agentbox"
	"agentbox/vmm/image"
)

// An image that came by half from machines that are gone is got or made anew, unless a box runs
// from it.
func TestLostImageFailsAtOnce(t *testing.T) {
	half, other := agentbox.Digest{7}, agentbox.Digest{9}
	for used, want := range map[bool]agentbox.Digest{false: other, true: half} {
		store, err := image.Open(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		r := image.Recipe{Source: "apt:bookworm", Platform: "linux/amd64"}
		give := half
		store.FindRemote = func(_ context.Context, _ agentbox.Digest, key string) (image.Image, error) {
			img := image.Image{
				Digest: give, Source: r.Source, Platform: r.Platform, Size: 1 << 20, Key: key, Lazy: &image.Lazy{Manifest: agentbox.Digest{1}, From: "team"},
			}
			give = other
			return img, nil
		}
		i := New(Config{
			Store: store, Log: slog.New(slog.DiscardHandler),
			CheckAvailable: func(_ context.Context, img image.Image) error {
				if img.Digest == half {
					return agentbox.Errorf(agentbox.NotFound, "half of it is with nobody")
				}
				return nil
			},
			UsedBy: func(agentbox.Digest) []string {
				if used {
					return []string{"a box"}
				}
				return nil
			},
		})
		img, err := i.Ensure(t.Context(), Want{Recipe: r}, nil)
		if err != nil || img.Digest != want {
			t.Errorf("used %v: %s, %v", used, img.Digest.Short(), err)
		}
		if _, err := store.Get(half.String()); (err == nil) != used {
			t.Errorf("used %v: the half is there: %v", used, err)
		}
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}
}
