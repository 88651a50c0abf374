package images

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/vmm/image"
)

// remote is a ChunkStore whose remotes do not answer for one image, and for no image have the rest.
type remote struct {
	ChunkStore
	silent agentbox.Digest
	asked  chan struct{} // gets one for each call that waits
}

func (r *remote) Open(ctx context.Context, img image.Image) (LazyImage, error) {
	if img.Digest == r.silent {
		r.asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &endless{asked: r.asked}, nil
}

// endless is a LazyImage that never has all blocks.
type endless struct {
	LazyImage
	asked chan struct{}
}

func (*endless) BlockSize() int64           { return 1 }
func (*endless) Received() []image.Received { return nil }
func (*endless) ReadFirst() []uint32        { return nil }
func (*endless) Close() error               { return nil }

func (*endless) Prefetch(context.Context, []uint32) error { return nil }

func (e *endless) Complete(ctx context.Context, _ func(int, int)) error {
	e.asked <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func lazyImage(n byte) image.Image {
	return image.Image{Digest: agentbox.Digest{n}, Size: 1, Lazy: &image.Lazy{From: "team"}}
}

func fromRemote(t *testing.T) (*Images, *remote) {
	t.Helper()
	store, err := image.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &remote{silent: agentbox.Digest{1}, asked: make(chan struct{})}
	return New(Config{Store: store, ChunkStore: r, Log: slog.New(slog.DiscardHandler)}), r
}

// soon fails the test if do hangs.
func soon(t *testing.T, what string, do func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(5 * time.Minute):
		t.Fatalf("%s hangs", what)
	}
}

// Machines that read one image do not wait for the remotes of another.
func TestSilentRemoteBlocksNoOtherImage(t *testing.T) {
	i, r := fromRemote(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.completions.open(ctx, lazyImage(1))
	}()
	<-r.asked
	for _, what := range []string{"opening another image", "using it"} {
		soon(t, what, func() error {
			f, err := i.completions.open(t.Context(), lazyImage(2))
			if err == nil {
				f.release()
			}
			return err
		})
	}
	cancel()
	<-ended
	soon(t, "the end", i.Close)
}

// The hint of an image whose bytes do not come says `image rm`, so that has to work while somebody
// waits for them.
func TestDropWhileWaiting(t *testing.T) {
	i, r := fromRemote(t)
	waited := make(chan error, 1)
	go func() {
		_, err := i.Complete(t.Context(), lazyImage(2), nil)
		waited <- err
	}()
	<-r.asked
	soon(t, "dropping it", func() error { return i.completions.drop(agentbox.Digest{2}) })
	soon(t, "who waits", func() error {
		if err := <-waited; agentbox.CodeOf(err) != agentbox.Unavailable {
			t.Errorf("the wait ended with %v", err)
		}
		return nil
	})
	soon(t, "the end", i.Close)
}
