package workspace

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
)

func archiveOf(t *testing.T, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range entries {
		text := "of setup"
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(text))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			w.Write([]byte(text))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf
}

func TestOverlayAddsAndReplacesNothing(t *testing.T) {
	tree := t.TempDir()
	for _, name := range []string{"own", ".git/config", "dir/own"} {
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("the repository's"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	when := time.Date(2020, 2, 2, 2, 2, 2, 0, time.UTC)
	files, err := Overlay(context.Background(), tree, archiveOf(t,
		tar.Header{Name: "own", Typeflag: tar.TypeReg},
		tar.Header{Name: "own/below", Typeflag: tar.TypeReg},
		tar.Header{Name: ".git/config", Typeflag: tar.TypeReg},
		tar.Header{Name: ".git/hooks/post-checkout", Typeflag: tar.TypeReg},
		tar.Header{Name: "dir/", Typeflag: tar.TypeDir, Mode: 0o700},
		tar.Header{Name: "dir/new", Typeflag: tar.TypeReg, Mode: 0o755, ModTime: when},
		tar.Header{Name: "made/", Typeflag: tar.TypeDir, Mode: 0o750, ModTime: when},
		tar.Header{Name: "made/link", Typeflag: tar.TypeSymlink, Linkname: "../dir/new"},
		tar.Header{Name: "made/twin", Typeflag: tar.TypeLink, Linkname: "dir/new"},
		tar.Header{Name: "made/stolen", Typeflag: tar.TypeLink, Linkname: ".git/config"},
	))
	if err != nil || files != 4 {
		t.Fatalf("%d files, %v", files, err)
	}
	for name, want := range map[string]string{
		"own": "the repository's", ".git/config": "the repository's", "dir/own": "the repository's",
		"dir/new": "of setup", "made/link": "of setup", "made/twin": "of setup",
	} {
		if b, err := os.ReadFile(filepath.Join(tree, name)); err != nil || string(b) != want {
			t.Errorf("%s is %q, %v", name, b, err)
		}
	}
	for _, name := range []string{".git/hooks", "made/stolen"} {
		if _, err := os.Lstat(filepath.Join(tree, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	if info, err := os.Stat(filepath.Join(tree, "dir/new")); err != nil || info.Mode().Perm() != 0o755 || !info.ModTime().Equal(when) {
		t.Errorf("dir/new: %v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(tree, "made")); err != nil || info.Mode().Perm() != 0o750 || !info.ModTime().Equal(when) {
		t.Errorf("made: %v, %v", info, err)
	}
}

func TestOverlayStaysInTree(t *testing.T) {
	outside := t.TempDir()
	for _, entries := range [][]tar.Header{
		{{Name: "../escaped", Typeflag: tar.TypeReg}},
		{{Name: "/escaped", Typeflag: tar.TypeReg}},
		{{Name: "out", Typeflag: tar.TypeSymlink, Linkname: outside}, {Name: "out/escaped", Typeflag: tar.TypeReg}},
		{{Name: "twin", Typeflag: tar.TypeLink, Linkname: "../../etc/passwd"}},
	} {
		tree := filepath.Join(t.TempDir(), "tree")
		if err := os.Mkdir(tree, 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := Overlay(context.Background(), tree, archiveOf(t, entries...))
		if err != nil && agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", entries[0].Name, err)
		}
		for _, dir := range []string{outside, filepath.Dir(tree)} {
			if found, _ := filepath.Glob(dir + "/*escaped*"); len(found) > 0 {
				t.Errorf("%s: wrote %s", entries[0].Name, found)
			}
		}
		if _, err := os.Lstat(tree + "/twin"); err == nil {
			t.Error("a link to a file outside was made")
		}
	}
	if _, err := Overlay(context.Background(), t.TempDir(), bytes.NewReader([]byte("no archive at all, but long enough to be read as the header of one"))); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("garbage: %v", err)
	}
}

// A box can write an archive whose names no file system has: each of their parts would cost a look
// at all that is above it, and a directory that is hard to remove.
func TestOverlayRefusesLongPaths(t *testing.T) {
	tree := t.TempDir()
	deep := strings.Repeat("a/", maxName/2) + "end"
	for _, h := range []tar.Header{{Name: deep, Typeflag: tar.TypeReg}, {Name: deep + "/", Typeflag: tar.TypeDir}} {
		if files, err := Overlay(t.Context(), tree, archiveOf(t, h)); files != 0 || agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%d files, %v", files, err)
		}
	}
	files, err := Overlay(t.Context(), tree, archiveOf(t, tar.Header{Name: "f", Typeflag: tar.TypeReg}, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: deep}))
	if files != 2 || err != nil {
		t.Errorf("a link to such a name: %d files, %v", files, err)
	}
	if left, err := os.ReadDir(tree); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A file that its owner in the box may not read is one that we have to read.
func TestOverlayCanBeRead(t *testing.T) {
	tree := t.TempDir()
	if _, err := Overlay(t.Context(), tree, archiveOf(t, tar.Header{Name: "f", Typeflag: tar.TypeReg, Mode: 0o044})); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(tree, "f")); err != nil || info.Mode().Perm() != 0o444 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// sparseArchive has one file that is nothing but a hole, in the form of PAX.
func sparseArchive(t *testing.T, size int) io.Reader {
	t.Helper()
	records := ""
	for _, r := range []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=f", fmt.Sprint("GNU.sparse.realsize=", size)} {
		records += fmt.Sprintf("%d %s\n", len(r)+4, r)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "records", Typeflag: tar.TypeReg, Size: int64(len(records))}), writeAll(w, records), w.Flush()); err != nil {
		t.Fatal(err)
	}
	// The writer makes no such header, so it is made of one for a file.
	block := buf.Bytes()[:512]
	block[156] = tar.TypeXHeader
	copy(block[148:156], "        ")
	sum := 0
	for _, b := range block {
		sum += int(b)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
	table := "0\n" + strings.Repeat("\x00", 510) // of pieces that are no hole
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "f", Typeflag: tar.TypeReg, Mode: 0o644, Size: 512}), writeAll(w, table), w.Close()); err != nil {
		t.Fatal(err)
	}
	return &buf
}

func writeAll(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// A few bytes of an archive can stand for a file that fills the disk.
func TestOverlayRefusesSparseFiles(t *testing.T) {
	if files, err := Overlay(t.Context(), t.TempDir(), sparseArchive(t, 1<<26)); files != 0 || agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("%d files, %v", files, err)
	}
}

// A deep tree, such as a box can have made, is taken over like any other.
func TestOverlayOfDeepTree(t *testing.T) {
	tree := t.TempDir()
	deep := strings.Repeat("a/", 200)
	var entries []tar.Header
	for i := range 100 {
		entries = append(entries, tar.Header{Name: fmt.Sprint(deep, i), Typeflag: tar.TypeReg})
	}
	entries = append(entries, tar.Header{Name: deep + ".git/hooks/x", Typeflag: tar.TypeReg}, tar.Header{Name: deep + "1/below", Typeflag: tar.TypeReg})
	files, err := Overlay(t.Context(), tree, archiveOf(t, entries...))
	if err != nil || files != 100 {
		t.Errorf("%d files, %v", files, err)
	}
}
