package layers

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
	"agentbox/cachestore"
)

// head begins a bundle and says what follows it: the parts, in this order, each a tar archive of
// that many bytes. It is JSON, behind the magic and its own length.
type head struct {
	Version int           `json:"version"`
	Made    caches.Result `json:"made"`
	Sizes   []int64       `json:"sizes"` // of Made.Parts
}

// Bounds of what a peer may have made.
const (
	// The length of the head follows the magic, as four bytes, the highest first.
	bundleMagic   = "ABXSET1\n"
	bundleVersion = 1
	maxHead       = 4 << 20 // thousands of lockfiles
)

// newBundle reads parts as one stream. parts has an open file for each of made.Parts; they are read
// when the stream is, and closed by the caller.
func newBundle(made caches.Result, parts map[caches.Part]*os.File) (io.Reader, error) {
	h := head{Version: bundleVersion, Made: made}
	var bodies []io.Reader
	for _, part := range made.Parts {
		info, err := parts[part].Stat()
		if err != nil {
			return nil, err
		}
		h.Sizes = append(h.Sizes, info.Size())
		bodies = append(bodies, io.LimitReader(parts[part], info.Size()))
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(text) > maxHead {
		return nil, agentbox.Errorf(agentbox.Invalid, "the names of the lockfiles take %d bytes, more than %d", len(text), maxHead)
	}
	start := binary.BigEndian.AppendUint32([]byte(bundleMagic), uint32(len(text)))
	return io.MultiReader(append([]io.Reader{bytes.NewReader(start), bytes.NewReader(text)}, bodies...)...), nil
}

// bundle is an opened one.
type bundle struct {
	blob *cachestore.Reader
	head head
	body int64 // where the first part begins
}

// open opens what a manifest stands for, all of which must be here. The caller closes blob.
func open(ctx context.Context, store *cachestore.Store, manifest agentbox.Digest) (bundle, error) {
	r, err := store.OpenBlob(ctx, manifest, nil)
	if err != nil {
		return bundle{}, err
	}
	b := bundle{blob: r}
	if b.head, b.body, err = readHead(io.NewSectionReader(r, 0, r.Size()), r.Size()); err != nil {
		r.Close()
		return bundle{}, err
	}
	return b, nil
}

// readHead decodes the beginning of a bundle of size bytes. The sizes must add up to size exactly,
// so that a part is what it says or an error. All errors but those of reading have code Corrupt.
func readHead(r io.Reader, size int64) (head, int64, error) {
	start := make([]byte, len(bundleMagic)+4)
	if _, err := io.ReadFull(r, start); err != nil {
		return head{}, 0, truncationError(err)
	}
	n := binary.BigEndian.Uint32(start[len(bundleMagic):])
	if string(start[:len(bundleMagic)]) != bundleMagic || n > maxHead {
		return head{}, 0, damaged("it does not begin as one")
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return head{}, 0, truncationError(err)
	}
	var h head
	if err := json.Unmarshal(text, &h); err != nil || h.Version != bundleVersion || len(h.Sizes) != len(h.Made.Parts) {
		return head{}, 0, damaged("its head is unreadable")
	}
	body := int64(len(start)) + int64(n)
	left := size - body
	for _, s := range h.Sizes {
		if s < 0 || s > left {
			return head{}, 0, damaged("its parts are longer than it is")
		}
		left -= s
	}
	if left != 0 {
		return head{}, 0, damaged("it is longer than its parts")
	}
	return h, body, nil
}

// truncationError is damage for a stream that ended too early, and else its error.
func truncationError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return damaged("it ends in its head")
	}
	return err
}

// damaged is the error for a bundle that is none.
func damaged(why string) error {
	return agentbox.Errorf(agentbox.Corrupt, "what setup made cannot be read: %s", why)
}

// part reads one part; NotFound when there is none of that name.
func (b bundle) part(want caches.Part) (io.Reader, error) {
	at := b.body
	for i, part := range b.head.Made.Parts {
		if part == want {
			return io.NewSectionReader(b.blob, at, b.head.Sizes[i]), nil
		}
		at += b.head.Sizes[i]
	}
	return nil, agentbox.Errorf(agentbox.NotFound, "setup made nothing of the part %q", want)
}
