package environment

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
)

func openFiles(t testing.TB) *Files {
	t.Helper()
	s := startServer(t, false)
	c := dialRelay(t, startRelay(t, s, fixed(s.dial(t))), s.login())
	f, err := OpenFiles(t.Context(), c, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

var longAgo = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

// plant makes a tree with everything a copy has to keep.
func plant(t *testing.T, dir string) {
	t.Helper()
	big := make([]byte, 3<<20+17)
	rand.Read(big)
	for name, data := range map[string][]byte{"big": big, "empty": nil, "sub/dir/script.sh": []byte("#!/bin/sh\n"), "odd \n\xffname": []byte("x"), "sub/readonly": []byte("r")} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		os.Chtimes(path, longAgo, longAgo)
	}
	for i := range 50 {
		os.WriteFile(filepath.Join(dir, "sub", "f"+string(rune('A'+i))), []byte{byte(i)}, 0o600)
	}
	os.Chmod(filepath.Join(dir, "sub/dir/script.sh"), 0o755)
	os.Chmod(filepath.Join(dir, "sub/readonly"), 0o444)
	os.Symlink("../nowhere", filepath.Join(dir, "sub/link"))
	os.Mkdir(filepath.Join(dir, "closed"), 0o500)
	os.Chtimes(filepath.Join(dir, "sub"), longAgo, longAgo)
}

// sameTree compares names, kinds, modes, times and contents.
func sameTree(t *testing.T, a, b string) {
	t.Helper()
	describe := func(root string) map[string]string {
		all := map[string]string{}
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				t.Fatal(err)
			}
			rel, _ := filepath.Rel(root, path)
			info, _ := d.Info()
			line := info.Mode().String()
			switch {
			case info.Mode().IsRegular():
				data, _ := os.ReadFile(path)
				line += info.ModTime().UTC().Truncate(time.Second).String() + string(data)
			case info.IsDir() && rel != ".":
				line += info.ModTime().UTC().Truncate(time.Second).String()
			case info.Mode()&fs.ModeSymlink != 0:
				line, _ = os.Readlink(path)
			}
			all[rel] = line
			return nil
		})
		return all
	}
	want, got := describe(a), describe(b)
	for name := range want {
		if want[name] != got[name] {
			t.Errorf("%q differs: %.80q and %.80q", name, want[name], got[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%q is too many", name)
		}
	}
}

func TestCopyBothWays(t *testing.T) {
	f := openFiles(t)
	from, box, back := t.TempDir(), t.TempDir(), t.TempDir()
	plant(t, from)
	var last Progress
	opts := CopyOptions{Progress: func(p Progress) { last = p }}
	for range 2 { // the second time onto what is there
		if err := f.CopyTo(t.Context(), from+"/.", box, opts); err != nil {
			t.Fatal(err)
		}
		sameTree(t, from, box)
		if err := f.CopyFrom(t.Context(), box, back+"/new", CopyOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(back + "/new/" + filepath.Base(box)); err == nil {
			os.RemoveAll(back + "/new/" + filepath.Base(box)) // the second copy went into the directory, as docker cp's
		}
	}
	if last.Files != 60 || last.Bytes < 3<<20 {
		t.Errorf("progress ended at %+v", last)
	}
	os.RemoveAll(back + "/new")
	if err := f.CopyFrom(t.Context(), box, back+"/new", CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	sameTree(t, from, back+"/new")
}

func TestDestination(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(dir+"/file", nil, 0o644)
	stat := func(p string) fs.FileInfo { i, _ := os.Stat(p); return i }
	for _, c := range []struct {
		src, base string
		srcDir    bool
		dst, want string // want "" is an error
	}{
		{"/a/f", "f", false, dir + "/new", dir + "/new"},
		{"/a/f", "f", false, dir + "/new/", ""},
		{"/a/f", "f", false, dir + "/file", dir + "/file"},
		{"/a/f", "f", false, dir, dir + "/f"},
		{"/a/f", "f", false, dir + "/", dir + "/f"},
		{"/a/d", "d", true, dir + "/new", dir + "/new"},
		{"/a/d", "d", true, dir + "/new/", dir + "/new"},
		{"/a/d", "d", true, dir + "/file", ""},
		{"/a/d", "d", true, dir, dir + "/d"},
		{"/a/d/", "d", true, dir, dir + "/d"},
		{"/a/d/.", "d", true, dir, dir},
		{".", "d", true, dir, dir},
	} {
		got, _, err := destination(c.src, c.base, c.dst, c.srcDir, stat(c.dst))
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s to %s: %q, %v", c.src, c.dst, got, err)
		}
	}
}

func TestCopyErrors(t *testing.T) {
	f := openFiles(t)
	dir := t.TempDir()
	os.WriteFile(dir+"/file", []byte("x"), 0o644)
	for what, err := range map[string]error{
		"no source here":        f.CopyTo(t.Context(), dir+"/absent", dir, CopyOptions{}),
		"no source there":       f.CopyFrom(t.Context(), dir+"/absent", dir, CopyOptions{}),
		"no parent here":        f.CopyFrom(t.Context(), dir+"/file", dir+"/no/such", CopyOptions{}),
		"no parent there":       f.CopyTo(t.Context(), dir+"/file", dir+"/no/such", CopyOptions{}),
		"tar into nothing":      f.TarTo(t.Context(), strings.NewReader(""), dir+"/absent", CopyOptions{}),
		"no source for the tar": f.TarFrom(t.Context(), dir+"/absent", io.Discard, CopyOptions{}),
	} {
		if agentbox.CodeOf(err) != agentbox.NotFound {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestCopyEndsWithItsContext(t *testing.T) {
	f := openFiles(t)
	dir := t.TempDir()
	os.Truncate(dir+"/big", 0)
	if err := os.WriteFile(dir+"/big", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	os.Truncate(dir+"/big", 1<<30)
	ctx, cancel := context.WithCancel(t.Context())
	err := f.CopyFrom(ctx, dir+"/big", dir+"/copy", CopyOptions{Progress: func(p Progress) {
		if p.Bytes > 1<<20 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestCopyFromDoesNotFollowLinksOut(t *testing.T) {
	f := openFiles(t)
	box, here, outside := t.TempDir(), t.TempDir(), t.TempDir()
	os.MkdirAll(box+"/tree/a", 0o755)
	os.WriteFile(box+"/tree/a/evil", []byte("x"), 0o644)
	os.MkdirAll(here+"/tree", 0o755)
	os.Symlink(outside, here+"/tree/a") // as an earlier copy of a link would have left it
	if err := f.CopyFrom(t.Context(), box+"/tree", here, CopyOptions{}); err == nil {
		t.Error("the copy went through a link that leads out")
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("written outside: %v", left)
	}
	os.WriteFile(outside+"/target", []byte("old"), 0o644)
	os.WriteFile(box+"/f", []byte("new"), 0o644)
	os.Symlink(outside+"/target", here+"/f")
	if err := f.CopyFrom(t.Context(), box+"/f", here+"/", CopyOptions{}); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(outside + "/target"); string(data) != "old" {
		t.Error("a file outside was overwritten through a link")
	}
}

// lyingServer serves directories whose names try to escape.
type lyingServer struct{ name string }

func (l lyingServer) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Method == "List" && r.Filepath == "/d" {
		return lines{falseInfo{l.name, 0}}, nil
	}
	if r.Method == "List" {
		return lines{}, nil
	}
	return lines{falseInfo{filepath.Base(r.Filepath), fs.ModeDir | 0o755}}, nil
}
func (lyingServer) Fileread(*sftp.Request) (io.ReaderAt, error) {
	return strings.NewReader("evil"), nil
}

type falseInfo struct {
	name string
	mode fs.FileMode
}

func (f falseInfo) Name() string       { return f.name }
func (f falseInfo) Size() int64        { return 4 }
func (f falseInfo) Mode() fs.FileMode  { return f.mode }
func (f falseInfo) ModTime() time.Time { return longAgo }
func (f falseInfo) IsDir() bool        { return f.mode.IsDir() }
func (f falseInfo) Sys() any           { return nil }

type lines []fs.FileInfo

func (l lines) ListAt(to []fs.FileInfo, off int64) (int, error) {
	if off >= int64(len(l)) {
		return 0, io.EOF
	}
	return copy(to, l[off:]), nil
}

func TestCopyFromHostileServer(t *testing.T) {
	for _, name := range []string{"../escaped", "/tmp/escaped", "..", "a/../../escaped", "nul\x00byte"} {
		here := t.TempDir()
		a, b := pipes()
		srv := sftp.NewRequestServer(b, sftp.Handlers{FileList: lyingServer{name}, FileGet: lyingServer{name}})
		done := make(chan struct{})
		go func() { srv.Serve(); close(done) }()
		f := &Files{guard: newGuard(a), stop: func() bool { return true }}
		var err error
		if f.sftp, err = sftp.NewClientPipe(f.guard, f.guard); err != nil {
			t.Fatal(err)
		}
		os.Mkdir(here+"/into", 0o755)
		err = f.CopyFrom(t.Context(), "/d", here+"/into", CopyOptions{})
		f.Close()
		b.Close()
		<-done
		filepath.WalkDir(here, func(p string, d fs.DirEntry, _ error) error {
			if !strings.HasPrefix(p, here+"/into") && p != here {
				t.Errorf("%q: %s was written", name, p)
			}
			return nil
		})
		t.Logf("%q: %v", name, err)
	}
}

// pipes are two ends of a stream that looks like an SSH channel.
func pipes() (ssh.Channel, io.ReadWriteCloser) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	return fakeChannel{pipeEnd{r1, w2}}, pipeEnd{r2, w1}
}

type pipeEnd struct {
	*io.PipeReader
	*io.PipeWriter
}

func (p pipeEnd) Close() error               { p.PipeReader.Close(); return p.PipeWriter.Close() }
func (p pipeEnd) CloseWithError(error) error { return p.Close() }

type fakeChannel struct{ pipeEnd }

func (fakeChannel) CloseWrite() error                              { return nil }
func (fakeChannel) SendRequest(string, bool, []byte) (bool, error) { return false, nil }
func (fakeChannel) Stderr() io.ReadWriter                          { return &bytes.Buffer{} }

func TestTar(t *testing.T) {
	f := openFiles(t)
	from, box, back := t.TempDir(), t.TempDir(), t.TempDir()
	plant(t, from)
	if err := f.CopyTo(t.Context(), from+"/.", box, CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := f.TarFrom(t.Context(), box+"/.", &out, CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.TarTo(t.Context(), bytes.NewReader(out.Bytes()), back, CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	sameTree(t, from, back)
	out.Reset()
	if err := f.TarFrom(t.Context(), box+"/sub/dir", &out, CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	if h, err := tar.NewReader(&out).Next(); err != nil || h.Name != "dir/" {
		t.Errorf("the stream begins with %+v, %v", h, err)
	}
}

func FuzzValidName(f *testing.F) {
	f.Add("..")
	f.Add("a/b")
	f.Fuzz(func(t *testing.T, name string) {
		if validName(name) == nil && !filepath.IsLocal(name) {
			t.Errorf("%q passes", name)
		}
	})
}
