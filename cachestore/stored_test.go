package cachestore

import (
	"bytes"
	"errors"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// What a transfer brought a moment ago is handed on before it was made last, and what gc took is
// not.
func TestStoredBeforeFlush(t *testing.T) {
	b := noise(11, 5*blob.BlockSize)
	src, d := otherStore(t, b)
	s := openStore(t, t.TempDir())
	l := fillImage(t, s, d, src)
	m := l.Manifest()
	if err := l.Need(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Has(m.Chunks[3].Digest); ok || err != nil {
		t.Fatalf("the block was made last already: this test shows nothing (%v)", err)
	}
	p, err := s.ReadStored(t.Context(), m.Chunks[3].Digest, nil)
	if err != nil || p.Encoding != blob.Plain || !bytes.Equal(p.Bytes, blockOf(b, 3)) {
		t.Errorf("%d bytes, %v", len(p.Bytes), err)
	}
	if bits, err := s.Bitmap(m); err != nil || !bytes.Equal(bits, []byte{1 << 3}) {
		t.Errorf("bitmap %08b, %v", bits, err)
	}
	if _, err := s.ReadStored(t.Context(), m.Chunks[2].Digest, nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("a block that did not come: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if bits, err := s.Bitmap(m); err != nil || !bytes.Equal(bits, []byte{1 << 3}) {
		t.Errorf("bitmap afterwards %08b, %v", bits, err)
	}
	gc(t, s, GCOptions{All: true})
	if _, err := s.ReadStored(t.Context(), m.Chunks[3].Digest, nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("a block that was evicted: %v", err)
	}
}

// What is written while it comes is the blob, whatever was here before, and twice in it.
func TestFetchTo(t *testing.T) {
	far := openStore(t, t.TempDir())
	stream := noise(5, 6<<20)
	stream = append(stream, stream[:3<<20]...)
	for name, b := range map[string]agentbox.Digest{"image": putImage(t, far, diskImage(4, 8)).Manifest, "stream": putStream(t, far, stream).Manifest} {
		near := openStore(t, t.TempDir())
		want := readBlob(t, far, b, nil)
		r, err := near.OpenBlob(t.Context(), b, far)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.ReadAt(make([]byte, 10), 2<<20); err != nil { // one of its chunks is here
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time all of it is
			var got bytes.Buffer
			if err := near.FetchTo(t.Context(), b, far, &got); err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s: %d of %d bytes: %v", name, got.Len(), len(want), err)
			}
		}
		full := errors.New("full")
		if err := openStore(t, t.TempDir()).FetchTo(t.Context(), b, far, writerFunc(func(p []byte) (int, error) { return 0, full })); !errors.Is(err, full) {
			t.Errorf("%s into a writer that fails: %v", name, err)
		}
		if err := openStore(t, t.TempDir()).FetchTo(t.Context(), b, near, &bytes.Buffer{}); err != nil {
			t.Errorf("%s from where it was fetched to: %v", name, err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestFetchProgress(t *testing.T) {
	b := noise(12, 6*blob.BlockSize)
	src, d := otherStore(t, b)
	l := fillImage(t, openStore(t, t.TempDir()), d, src)
	defer l.Close()
	if err := l.Need(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	last := 0
	if err := l.Complete(t.Context(), func(done, total int) {
		if done != last+1 && last != 0 || total != 6 {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
	}); err != nil {
		t.Fatal(err)
	}
	if last != 6 {
		t.Errorf("progress ended at %d", last)
	}
}
