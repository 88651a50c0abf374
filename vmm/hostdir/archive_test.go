package hostdir

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentbox/agentbox"
)

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b bytes.Buffer
	if err := ListTree(&b, dir); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(b.String(), "\n") // without the directory itself
	return rest
}

func TestArchivePreservesListing(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	var b bytes.Buffer
	for _, err := range []error{
		os.WriteFile(filepath.Join(src, "script"), []byte("#!/bin/sh\n"), 0o755),
		os.Chmod(filepath.Join(src, "script"), 0o751|os.ModeSetuid),
		os.Mkdir(filepath.Join(src, "closed"), 0o700),
		os.WriteFile(filepath.Join(src, "closed", "\xff\n"), []byte("name"), 0o400),
		os.Symlink("/nowhere", filepath.Join(src, "link")),
		os.Link(filepath.Join(src, "script"), filepath.Join(src, "closed", "again")),
		syscall.Mkfifo(filepath.Join(src, "pipe"), 0o640),
		os.Chmod(filepath.Join(src, "closed"), 0o500),
		WriteArchive(t.Context(), &b, src, 1<<20, nil, nil),
		ReadArchive(t.Context(), dst, &b, 1<<20, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if one, two := listing(t, src), listing(t, dst); one != two || !strings.Contains(one, "pipe") {
		t.Errorf("an archive differs:\n%s\n%s", one, two)
	}
	one, err1 := os.Stat(filepath.Join(dst, "script"))
	two, err2 := os.Stat(filepath.Join(dst, "closed", "again"))
	if err1 != nil || err2 != nil || !os.SameFile(one, two) {
		t.Errorf("a hard link became two files (%v, %v)", err1, err2)
	}
	if got, err := os.ReadFile(filepath.Join(dst, "closed", "\xff\n")); string(got) != "name" {
		t.Errorf("%q, %v", got, err)
	}
	if b.Len() != 0 {
		t.Errorf("%d bytes were left over, in which another archive would begin", b.Len())
	}
	if err := WriteArchive(t.Context(), &b, src, 5, nil, nil); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("beyond its limit: %v", err)
	}
}

func archiveOf(t testing.TB, headers ...tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var attacks = map[string][]tar.Header{
	"up":           {{Name: "../x", Typeflag: tar.TypeReg}},
	"absolute":     {{Name: "/tmp/x", Typeflag: tar.TypeReg}},
	"itself":       {{Name: ".", Typeflag: tar.TypeDir}},
	"through link": {{Name: "a", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "a/x", Typeflag: tar.TypeReg}},
	"over link":    {{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "../x"}, {Name: "a", Typeflag: tar.TypeReg}},
	"link out":     {{Name: "a", Typeflag: tar.TypeLink, Linkname: "../outside"}},
	"link of link": {{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "../outside"}, {Name: "b", Typeflag: tar.TypeLink, Linkname: "a"}},
	"device":       {{Name: "a", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 1}},
	"large":        {{Name: "a", Typeflag: tar.TypeReg, Size: 2 << 20}},
	"sized":        {{Name: "a", Typeflag: tar.TypeReg, Size: 9, Format: tar.FormatPAX, PAXRecords: map[string]string{sizeRecord: "2000000"}}},
	"sizeless":     {{Name: "a", Typeflag: tar.TypeReg, Size: 9, Format: tar.FormatPAX, PAXRecords: map[string]string{sizeRecord: "-1"}}},
	"empty piece":  {{Name: "a", Typeflag: tar.TypeReg, Size: 9, Format: tar.FormatPAX, PAXRecords: map[string]string{sizeRecord: "9"}}},
	"pipe in link": {{Name: "a", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "a/x", Typeflag: tar.TypeFifo}},
}

// unpackBeside unpacks into a directory beside a file that must stay as it is, and alone.
func unpackBeside(t testing.TB, b []byte) error {
	base := t.TempDir()
	outside, tree := filepath.Join(base, "outside"), filepath.Join(base, "tree")
	if err := errors.Join(os.WriteFile(outside, []byte("outside"), 0o640), os.Mkdir(tree, 0o700)); err != nil {
		t.Fatal(err)
	}
	before, err1 := os.Stat(outside)
	err := ReadArchive(t.Context(), tree, bytes.NewReader(b), 1<<20, known)
	after, err2 := os.Stat(outside)
	all, err3 := os.ReadDir(base)
	if errors.Join(err1, err2, err3) != nil || len(all) != 2 || before.Mode() != after.Mode() || before.ModTime() != after.ModTime() || after.Sys().(*syscall.Stat_t).Nlink != 1 {
		t.Errorf("something outside has changed: %v, %v", all, after)
	}
	return err
}

func TestArchiveStaysInItsTree(t *testing.T) {
	for name, headers := range attacks {
		if err := unpackBeside(t, archiveOf(t, headers...)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzReadArchive(f *testing.F) {
	for _, headers := range attacks {
		f.Add(archiveOf(f, headers...))
	}
	f.Fuzz(func(t *testing.T, b []byte) { _ = unpackBeside(t, b) })
}
