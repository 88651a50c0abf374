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

const (
	maxDownloads = 3 // layers that are downloaded at once
	maxTries     = 3 // of each layer
)

// download downloads layers into files of a build, several at once. Meanwhile open returns the
// layers that have arrived, in order.
type download struct {
	b      *build
	source string // as the recipe has it, for the progress
	layers []v1.Layer
	done   []chan error // one per layer; receives once
	group  sync.WaitGroup

	mu          sync.Mutex // guards what follows
	have, total int64      // bytes that came, of those in the manifest; have falls when a layer is tried again
	reported    time.Time
}

// download starts to fetch layers, which are in the image's order. The caller ends it by cancelling
// ctx, and then waits. No compressed layer is larger than what may be unpacked, so a manifest that
// says so is refused before anything is written: Invalid. A negative size, which the library reads
// as "unknown" and then does not bound the download, is Corrupt.
func (b *build) download(ctx context.Context, source string, layers []v1.Layer) (*download, error) {
	d := &download{b: b, source: source, layers: layers}
	slots := make(chan struct{}, maxDownloads)
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
			slots <- struct{}{} // after the end of ctx, every holder of a slot fails at once
			defer func() { <-slots }()
			d.done[i] <- d.fetch(ctx, i)
		})
	}
	return d, nil
}

func (d *download) wait() { d.group.Wait() }

// open waits until layer i is here and returns its uncompressed bytes, once.
func (d *download) open(i int) (io.ReadCloser, error) {
	if err := <-d.done[i]; err != nil {
		return nil, err
	}
	f, err := os.Open(d.path(i))
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil { // its space is free when it is closed
		return nil, errors.Join(err, f.Close())
	}
	r, err := decompress(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (d *download) path(i int) string { return filepath.Join(d.b.dir, fmt.Sprintf("layer-%d", i)) }

// fetch tries to download a layer a few times, and waits longer after each.
func (d *download) fetch(ctx context.Context, i int) error {
	var err error
	for try := range maxTries {
		if err = d.fetchOnce(ctx, i); err == nil || ctx.Err() != nil || !isTransient(err) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(try+1) * 300 * time.Millisecond):
		}
	}
	return err
}

// isTransient tells whether another try may succeed: after a broken connection or a busy registry,
// but not after a definite answer, an error of this host's disk, or one with a code.
func isTransient(err error) bool {
	var answer *transport.Error
	if errors.As(err, &answer) {
		return answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests
	}
	return agentbox.AsError(hostError(err)).Code == agentbox.Internal
}

// fetchOnce downloads a layer, whose digest and size the library verifies. It replaces the file of
// an earlier try. When ctx ends, it fails at once.
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

// counter counts the bytes of a download.
type counter struct{ d *download }

func (c counter) Write(p []byte) (int, error) {
	c.d.count(int64(len(p)))
	return len(p), nil
}

// count adds bytes, and reports progress at most ten times a second.
func (d *download) count(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.have += n
	if d.have == d.total || time.Since(d.reported) > 100*time.Millisecond {
		d.reported = time.Now()
		d.b.progress.Update(step, "fetch "+d.source, d.have, d.total)
	}
}

// decompress returns the uncompressed bytes of a layer, and closes f with them. It looks at the
// first bytes, since media types are often wrong. The window of zstd, whose size a stream says
// itself, is bounded to 128 MiB.
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

// stream is a reader with a function that closes it.
type stream struct {
	io.Reader
	close func() error
}

func (s stream) Close() error { return s.close() }
