package qemu

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// scattered makes a sparse file of some regions with random pages, and returns it with its bytes.
func scattered(t testing.TB, regions int) (*os.File, []byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	content := make([]byte, regions*regionSize)
	f, err := createSized(filepath.Join(t.TempDir(), "space"), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	for p := 0; p < len(content); p += pageSize {
		if p/regionSize%3 == 1 || rng.IntN(3) > 0 {
			continue // whole regions, and two pages of three, stay holes
		}
		page := content[p : p+pageSize]
		if rng.IntN(10) > 0 { // else a page of zeros that is written
			for i := range page {
				page[i] = byte(rng.Uint32())
			}
		}
		if _, err := f.WriteAt(page, int64(p)); err != nil {
			t.Fatal(err)
		}
	}
	return f, content
}

func stored(t testing.TB, f *os.File, space int64) (*os.File, *pageIndex) {
	t.Helper()
	all, err := fileCandidates(f, space)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "x.pages"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	x, err := writePages(context.Background(), out, space, all, fileSpace{f}, func(int64) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	return out, x
}

func TestPageSetRoundTrip(t *testing.T) {
	f, content := scattered(t, 7)
	out, x := stored(t, f, int64(len(content)))
	again, err := decodeIndex(x.encode())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, x) {
		t.Error("the index changes when it is encoded and decoded")
	}
	back, err := createSized(filepath.Join(t.TempDir(), "back"), x.Space)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	if err := readPages(context.Background(), out, again, fileSpace{back}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(back.Name())
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("the space came back differently (%v)", err)
	}
	for p := 0; p < len(content); p += pageSize {
		if want := !isZero(content[p : p+pageSize]); x.has(int64(p)) != want {
			t.Fatalf("has(%#x) is %v", p, !want)
		}
	}
}

func TestPageMismatch(t *testing.T) {
	f, content := scattered(t, 3)
	out, x := stored(t, f, int64(len(content)))
	if _, err := out.WriteAt([]byte{1, 2, 3}, x.Length/2); err != nil {
		t.Fatal(err)
	}
	if err := readPages(context.Background(), out, x, fileSpace{f}); !errors.Is(err, errPages) {
		t.Errorf("changed pages: %v", err)
	}
	if err := out.Truncate(x.Length - 1); err != nil {
		t.Fatal(err)
	}
	if err := readPages(context.Background(), out, x, fileSpace{f}); !errors.Is(err, errPages) {
		t.Errorf("missing pages: %v", err)
	}
}

func TestKeepZeroPages(t *testing.T) {
	r := region{Offset: regionSize}
	for i := range 4 {
		r.Pages.set(i * 3)
	}
	data := make([]byte, 4*pageSize)
	data[pageSize] = 1 // of four pages, at 0, 3, 6 and 9, the second is not zero
	data = dropZeroPages(data, &r, func(off int64) bool { return off == regionSize+9*pageSize })
	if len(data) != 2*pageSize || data[0] != 1 || r.Pages.count() != 2 || !r.Pages.has(3) || !r.Pages.has(9) {
		t.Errorf("kept %d bytes, pages %x", len(data), r.Pages)
	}
}

func FuzzDecodeIndex(f *testing.F) {
	space, content := scattered(f, 4)
	_, x := stored(f, space, int64(len(content)))
	f.Add(x.encode())
	f.Add((&pageIndex{}).encode())
	f.Add([]byte(indexMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := decodeIndex(b)
		if err != nil {
			return
		}
		if !bytes.Equal(x.encode(), b) {
			t.Error("accepted an index that encode does not write")
		}
		sink := checkedSink{t, x.Space}
		for i := range x.Regions {
			r := &x.Regions[i]
			sink.writePages(nil, r.Offset, &r.Pages)
			if !x.has(r.Offset + r.Pages.runs()[0].off) {
				t.Error("a page of the index is not found in it")
			}
		}
	})
}

// checkedSink fails when pages lie outside the space.
type checkedSink struct {
	t     *testing.T
	space int64
}

func (c checkedSink) writePages(_ []byte, offset int64, pages *bitmap) error {
	for _, run := range pages.runs() {
		if offset < 0 || offset+run.off+run.len > c.space {
			c.t.Errorf("pages at %#x+%#x lie outside a space of %#x", offset, run.off, c.space)
		}
	}
	return nil
}

func BenchmarkWritePages(b *testing.B) {
	f, content := scattered(b, 64)
	b.SetBytes(int64(len(content)) / 9 * 2)
	for b.Loop() {
		stored(b, f, int64(len(content)))
	}
}
