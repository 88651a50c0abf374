package lazyimage_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/lazyimage"
)

var _ vmm.Blocks = (*lazyimage.File)(nil)

const block = 64

// growing is a file that is written block by block as they are needed.
type growing struct {
	mu    sync.Mutex
	path  string
	bytes []byte
	have  []byte
	asked []int
}

func (g *growing) need(ctx context.Context, i int) (agentbox.Blocks, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, i)
	f, err := os.OpenFile(g.path, os.O_WRONLY, 0)
	if err != nil {
		return agentbox.Blocks{}, err
	}
	defer f.Close()
	g.have[i/8] |= 1 << (i % 8)
	_, err = f.WriteAt(g.bytes[i*block:min((i+1)*block, len(g.bytes))], int64(i*block))
	return agentbox.Blocks{Path: g.path, Have: bytes.Clone(g.have)}, err
}

func grow(t *testing.T, blocks int) (*growing, *lazyimage.File) {
	t.Helper()
	g := &growing{path: filepath.Join(t.TempDir(), "image"), have: make([]byte, blocks/8+1)}
	for i := range blocks*block + 7 {
		g.bytes = append(g.bytes, byte(i*31>>3))
	}
	if err := os.WriteFile(g.path, make([]byte, len(g.bytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := lazyimage.Open(lazyimage.Image{Path: g.path, Size: int64(len(g.bytes)), Block: block}, g.need)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return g, f
}

func TestReadsNeedBlocks(t *testing.T) {
	g, f := grow(t, 20)
	for _, r := range []struct{ off, n int }{{0, 1}, {63, 2}, {64, 64}, {20 * block, 7}, {5*block - 1, 3 * block}, {0, 0}, {10, 500}} {
		p := make([]byte, r.n)
		if err := f.ReadBlocks(t.Context(), p, int64(r.off)); err != nil || !bytes.Equal(p, g.bytes[r.off:r.off+r.n]) {
			t.Errorf("%d bytes at %d: %v", r.n, r.off, err)
		}
	}
	seen := map[int]bool{}
	for _, i := range g.asked {
		if seen[i] {
			t.Errorf("block %d was asked for twice", i)
		}
		seen[i] = true
	}
	for _, r := range []struct{ off, n int }{{-1, 1}, {0, len(g.bytes) + 1}, {len(g.bytes), 1}} {
		if err := f.ReadBlocks(t.Context(), make([]byte, r.n), int64(r.off)); err == nil {
			t.Errorf("%d bytes at %d were read", r.n, r.off)
		}
	}
}

func TestConcurrentReaders(t *testing.T) {
	g, f := grow(t, 40)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			p := make([]byte, 100)
			for i := range 100 {
				off := (i*97 + w*13) % (len(g.bytes) - len(p))
				if err := f.ReadBlocks(t.Context(), p, int64(off)); err != nil || !bytes.Equal(p, g.bytes[off:off+len(p)]) {
					t.Errorf("at %d: %v", off, err)
				}
			}
		})
	}
	wg.Wait()
	if f.Waiting() != 0 {
		t.Error("somebody waits when nobody reads")
	}
}

// A hole is never shown, even by one who answers without having got anything.
func TestHolesAreNotShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, make([]byte, 10*block), 0o600); err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	answer, failure := []byte{0}, error(nil)
	f, err := lazyimage.Open(lazyimage.Image{Path: path, Size: 10 * block, Block: block}, func(context.Context, int) (agentbox.Blocks, error) {
		return agentbox.Blocks{Path: path, Have: answer}, failure
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.ReadBlocks(t.Context(), make([]byte, 1), 0); err == nil {
		t.Error("a block that is not there was read")
	}
	failure = gone
	if err := f.ReadBlocks(t.Context(), make([]byte, 1), 0); !errors.Is(err, gone) {
		t.Error(err)
	}
	failure, answer = nil, []byte{1}
	if err := f.ReadBlocks(t.Context(), make([]byte, 1), 0); err != nil {
		t.Error(err)
	}
}

// Who completes the image may lose its file and make another, even under the same name. Blocks of
// the first are not taken for blocks of it.
func TestReplacedFile(t *testing.T) {
	g, f := grow(t, 8)
	p := make([]byte, block)
	for i := range 4 {
		if err := f.ReadBlocks(t.Context(), p, int64(i*block)); err != nil {
			t.Fatal(err)
		}
	}
	g.mu.Lock()
	if err := os.Remove(g.path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.path, make([]byte, len(g.bytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	clear(g.have)
	g.mu.Unlock()
	for i := 7; i >= 0; i-- {
		if err := f.ReadBlocks(t.Context(), p, int64(i*block)); err != nil || !bytes.Equal(p, g.bytes[i*block:(i+1)*block]) {
			t.Errorf("block %d: %v", i, err)
		}
	}
}

// FuzzAnswer: whatever bitmap comes, what is read are the image's bytes or an error.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{0xff}, int64(0), 10)
	f.Add([]byte{}, int64(65), 64)
	f.Add([]byte{0, 0xff, 3}, int64(500), 300)
	path := filepath.Join(f.TempDir(), "image")
	image := bytes.Repeat([]byte("0123456789abcdef"), 65)
	if err := os.WriteFile(path, image, 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, have []byte, off int64, n int) {
		about := lazyimage.Image{Path: path, Size: int64(len(image)), Block: block}
		file, err := lazyimage.Open(about, func(context.Context, int) (agentbox.Blocks, error) {
			return agentbox.Blocks{Path: path, Have: have}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		p := make([]byte, max(0, n%2048))
		if file.ReadBlocks(t.Context(), p, off) == nil && !bytes.Equal(p, image[off:off+int64(len(p))]) {
			t.Fatalf("%d bytes at %d are not the image's", len(p), off)
		}
	})
}

// A read beyond every file's end is refused, and asks for no block.
func TestOverflowingReadIsRefused(t *testing.T) {
	g, f := grow(t, 4)
	for _, off := range []int64{-1, 1 << 40, math.MaxInt64 - 8, math.MaxInt64} {
		if err := f.ReadBlocks(t.Context(), make([]byte, 100), off); err == nil || !strings.Contains(err.Error(), "of an image of") {
			t.Errorf("at %d: %v", off, err)
		}
	}
	if len(g.asked) > 0 {
		t.Errorf("blocks %v were asked for", g.asked)
	}
}
