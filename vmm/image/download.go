package image

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/klauspost/compress/zstd"

	"agentbox/agentbox"
)

// Layers are downloaded side by side, and each again when the connection breaks, because an image
// is only as fast and as reliable as its slowest layer.
const (
	downloads    = 3
	downloadsTry = 3
)

// download is a set of layers being fetched into files of a build. A layer is fetched by one of its
// goroutines and taken by open, in order, while later ones are still on their way.
type download struct {
	b *build
	// For the progress; as the recipe has it.
	source string
	layers []v1.Layer
	done   []chan error // one per layer; receives once
	group  sync.WaitGroup

	// Guards what follows: bytes for the progress.
	mu sync.Mutex
	// Bytes that came, of those that the manifest says; have falls when a layer is begun anew.
	have, total int64
	told        time.Time
}

// download starts to fetch layers, which are in the image's order. The caller ends it by cancelling
// ctx, and then waits. No compressed layer is larger than what may be unpacked, so a manifest that
// says so is refused before anything is written: Invalid. A negative size, which the library reads
// as "unknown" and then does not bound the download, is Corrupt.
func (b *build) download(ctx context.Context, source string, layers []v1.Layer) (*download, error) {
	d := &download{b: b, source: source, layers: layers}
	slots := make(chan struct{}, downloads)
	for _, l := range layers {
		n, err := l.Size()
		switch {
		case err != nil:
			return nil, err
		case n < 0:
			return nil, agentbox.Errorf(agentbox.Corrupt, "a layer of image %s has the impossible size of %d bytes", source, n)
		case n > b.tree.Limits().Bytes-d.total:
			return nil, agentbox.Errorf(agentbox.Invalid, "the layers of image %s have more than %d bytes", source, b.tree.Limits().Bytes)
		}
		d.total += n
		d.done = append(d.done, make(chan error, 1))
	}
	for i := range layers {
		d.group.Go(func() {
			// One that waits for its turn when ctx ends fails as soon as it has it.
			slots <- struct{}{}
			defer func() { <-slots }()
			d.done[i] <- d.fetch(ctx, i)
		})
	}
	return d, nil
}

// wait returns when no goroutine of it is left.
func (d *download) wait() { d.group.Wait() }

// open waits until a layer is there and gives its uncompressed bytes. It may be called once for
// each layer.
func (d *download) open(i int) (io.ReadCloser, error) {
	if err := <-d.done[i]; err != nil {
		return nil, err
	}
	f, err := os.Open(d.path(i))
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil { // its space is free again as soon as it was read
		return nil, errors.Join(err, f.Close())
	}
	r, err := decompress(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// path is where a layer is until it is opened, as it came.
func (d *download) path(i int) string { return filepath.Join(d.b.dir, fmt.Sprintf("layer-%d", i)) }

// fetch tries a few times, waiting a little longer each time.
func (d *download) fetch(ctx context.Context, i int) error {
	var err error
	for try := range downloadsTry {
		if err = d.fetchOnce(ctx, i); err == nil || ctx.Err() != nil || !worthAnotherTry(err) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(try+1) * 300 * time.Millisecond):
		}
	}
	return err
}

// worthAnotherTry tells a connection that broke from an answer that will stay what it is. Errors of
// this host's disk, and those that have a code, stay as well.
func worthAnotherTry(err error) bool {
	var answer *transport.Error
	if errors.As(err, &answer) {
		return answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests
	}
	return agentbox.AsError(hostError(err)).Code == agentbox.Internal
}

// fetchOnce downloads a layer; the library compares its digest and size while it is read. An
// earlier try's file is replaced. When ctx ends, reading fails at once.
func (d *download) fetchOnce(ctx context.Context, i int) (err error) {
	rc, err := d.layers[i].Compressed()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { rc.Close() })
	defer stop()
	defer rc.Close()
	f, err := os.Create(d.path(i))
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.TeeReader(rc, counter{d}))
	if err = errors.Join(err, f.Close()); err != nil {
		d.count(-n)
	}
	return err
}

// counter counts what is copied through it.
type counter struct{ d *download }

func (c counter) Write(p []byte) (int, error) {
	c.d.count(int64(len(p)))
	return len(p), nil
}

// count adds bytes and tells the progress, ten times a second at most.
func (d *download) count(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.have += n
	if d.have == d.total || time.Since(d.told) > 100*time.Millisecond {
		d.told = time.Now()
		d.b.progress.Move(step, "fetch "+d.source, d.have, d.total)
	}
}

// decompress gives the bytes of a layer, however it is compressed, and closes it. It looks at the
// first bytes and not at a media type, which images get wrong. The window of zstd is bounded to 128
// MiB: a stream says itself how much memory it wants.
func decompress(f io.ReadCloser) (io.ReadCloser, error) {
	r := bufio.NewReaderSize(f, 256<<10)
	magic, err := r.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	// gzip (RFC 1952), zstd (RFC 8878), and else a plain archive.
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, agentbox.Errorf(agentbox.Corrupt, "layer is not complete gzip: %w", err)
		}
		return stream{z, f.Close}, nil
	case string(magic) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, agentbox.Errorf(agentbox.Corrupt, "layer is not complete zstd: %w", err)
		}
		return stream{z, func() error { z.Close(); return f.Close() }}, nil
	}
	return stream{r, f.Close}, nil
}

// stream is a reader with what has to be closed behind it.
type stream struct {
	io.Reader
	close func() error
}

func (s stream) Close() error { return s.close() }
