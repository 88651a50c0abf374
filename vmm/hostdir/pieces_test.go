package hostdir

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// known are pieces of which there is a file nowhere, and one that is larger than anything.
var known = Index{agentbox.Digest{1}: {"/nonexistent/file", 0, 10}, agentbox.Digest{2}: {"/dev/zero", 0, 1 << 40}}

func randomBytes(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

func writeFiles(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, b := range files {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// What another machine has is not written again, wherever it has it, and the tree is the same there.
func TestArchiveLeavesOutWhatIsThere(t *testing.T) {
	src, like, dst := t.TempDir(), t.TempDir(), t.TempDir()
	pack, large, small := randomBytes(1, 5<<20), randomBytes(2, 3<<20), []byte("small")
	moved := bytes.Join([][]byte{pack[3<<20:], []byte("something new"), pack[:3<<20]}, nil)
	writeFiles(t, src, map[string][]byte{"pack": moved, "sub/large": large, "small": small, "new": randomBytes(3, 1<<20), "empty": nil})
	writeFiles(t, like, map[string][]byte{"other/pack": pack, "large": large, "small": small, "unused": randomBytes(4, 1<<20)})
	if err := os.Link(filepath.Join(src, "pack"), filepath.Join(src, "again")); err != nil {
		t.Fatal(err)
	}
	own, err1 := Cut(t.Context(), src)
	theirs, err2 := Cut(t.Context(), like)
	var said, b bytes.Buffer
	have := theirs.Index()
	err3 := have.WriteDigests(&said)
	there, err4 := ReadDigests(&said)
	if err := errors.Join(err1, err2, err3, err4, WriteArchive(t.Context(), &b, src, 20<<20, own, there)); err != nil {
		t.Fatal(err)
	}
	if n := b.Len(); n > 2<<20 || n < 1<<20 {
		t.Errorf("%d bytes are written, of which 1 MiB is new", n)
	}
	if err := ReadArchive(t.Context(), dst, &b, 20<<20, have); err != nil {
		t.Fatal(err)
	}
	if one, two := listing(t, src), listing(t, dst); one != two {
		t.Errorf("an archive differs:\n%s\n%s", one, two)
	}
	for _, name := range []string{"pack", "again", "sub/large", "small", "new"} {
		one, err1 := os.ReadFile(filepath.Join(src, name))
		two, err2 := os.ReadFile(filepath.Join(dst, name))
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s differs, %v", name, err)
		}
	}
	err := WriteArchive(t.Context(), io.Discard, src, 6<<20, own, there)
	if agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("pieces that are there count: %v", err)
	}
}

// Pieces that make no sense are refused, and so is more of them than there is room for.
func TestPiecesOfAnotherMachine(t *testing.T) {
	there := func(d agentbox.Digest) string { return string(append([]byte{isThere}, d[:]...)) }
	here := func(n byte, text string) string { return string([]byte{isHere, 0, 0, 0, 0, 0, 0, 0, n}) + text }
	for name, c := range map[string]struct{ size, content string }{
		"not offered": {"10", there(agentbox.Digest{9})}, "gone": {"10", there(agentbox.Digest{1})}, "too large": {"10", there(agentbox.Digest{2})},
		"longer than its file": {"2", here(3, "abc")}, "cut short": {"3", here(3, "ab")}, "of no kind": {"3", "\x02abc"}, "no bytes": {"3", here(0, "")}, "less": {"4", here(3, "abc")},
		"negative": {"3", "\x00\xff\xff\xff\xff\xff\xff\xff\xffabc"}, "beyond the limit": {"1048577", there(agentbox.Digest{2})},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		h := tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: int64(len(c.content)), Format: tar.FormatPAX, PAXRecords: map[string]string{sizeRecord: c.size}}
		err := w.WriteHeader(&h)
		_, writeErr := io.WriteString(w, c.content)
		if err := errors.Join(err, writeErr, w.Close()); err != nil {
			t.Fatal(err)
		}
		if err := unpackBeside(t, b.Bytes()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := ReadDigests(strings.NewReader("\xff\xff\xff\xff")); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("too many digests: %v", err)
	}
	if _, err := ReadDigests(strings.NewReader("\x00\x00\x00\x02" + strings.Repeat("x", sha256.Size))); !errors.Is(err, io.EOF) {
		t.Errorf("fewer digests than said: %v", err)
	}
}
