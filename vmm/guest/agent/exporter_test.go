//go:build linux

package agent

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// exported runs an export and gives its entries: name -> content, or "-> target" of a link, or "/"
// of a directory.
func exported(t *testing.T, req protocol.ExportRequest, known []byte) map[string]string {
	t.Helper()
	req.Known = int64(len(known))
	request, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := serveExport(bufio.NewReader(bytes.NewReader(append(append(request, '\n'), known...))), &buf); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	r := tar.NewReader(&buf)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			out[h.Name] = "/"
		case tar.TypeSymlink, tar.TypeLink:
			out[h.Name] = "-> " + h.Linkname
		default:
			b, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			out[h.Name] = string(b)
		}
	}
}

func takeInventoryOf(t *testing.T, req protocol.ExportRequest) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := takeInventory(req, &buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func plant(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestExportChanges(t *testing.T) {
	root := t.TempDir()
	plant(t, root+"/old", "old")
	plant(t, root+"/dir/old", "old")
	plant(t, root+"/same", "then")
	plant(t, root+"/moded", "m")
	req := protocol.ExportRequest{Root: root, Skip: []string{root + "/skipped"}}
	known := takeInventoryOf(t, req)
	// As a build that keeps times does, and in the same tick of the clock for all that anybody
	// knows.
	info, err := os.Stat(root + "/same")
	if err != nil {
		t.Fatal(err)
	}
	plant(t, root+"/same", "now!")
	if err := errors.Join(os.Chtimes(root+"/same", info.ModTime(), info.ModTime()), os.Chmod(root+"/moded", 0o600)); err != nil {
		t.Fatal(err)
	}
	plant(t, root+"/new", "new")
	plant(t, root+"/skipped/new", "no")
	plant(t, root+"/odd name\n", "odd")
	if err := errors.Join(os.Link(root+"/new", root+"/twin"), os.Symlink("nowhere", root+"/link")); err != nil {
		t.Fatal(err)
	}
	// A file that looks old, as unpacked ones do, has changed all the same.
	if err := os.Chtimes(root+"/new", time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	got := exported(t, req, known)
	want := map[string]string{"same": "now!", "moded": "m", "new": "new", "twin": "-> new", "link": "-> nowhere", "odd name\n": "odd"}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%q is %q, want %q", name, got[name], content)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("besides: %v", got)
	}
}

func TestExportPaths(t *testing.T) {
	root := t.TempDir()
	plant(t, root+"/home/cache/a", "a")
	plant(t, root+"/home/cache/deep/b", "b")
	plant(t, root+"/home/other", "no")
	got := exported(t, protocol.ExportRequest{Root: root, Paths: []string{root + "/home/cache", root + "/missing"}}, nil)
	var names []string
	for name := range got {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := "home/ home/cache/ home/cache/a home/cache/deep/ home/cache/deep/b"; strings.Join(names, " ") != want {
		t.Errorf("got %q, want %s", names, want)
	}
}

// Of a file that is too large there is its size, and none of its content.
func TestExportTooLarge(t *testing.T) {
	root := t.TempDir()
	for name, size := range map[string]int64{"fits": 8, "large": 1 << 40} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, size)); err != nil {
			t.Fatal(err)
		}
	}
	request, _ := json.Marshal(protocol.ExportRequest{Root: root, Most: 8})
	var buf bytes.Buffer
	if err := serveExport(bufio.NewReader(bytes.NewReader(append(request, '\n'))), &buf); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	r := tar.NewReader(&buf)
	h, err := r.Next()
	for ; err == nil; h, err = r.Next() {
		got[h.Name] = fmt.Sprint(h.Size, h.PAXRecords[protocol.SizeRecord])
	}
	if want := map[string]string{"fits": "8", "large": "01099511627776"}; err != io.EOF || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestExportReadError(t *testing.T) {
	if err := export(protocol.ExportRequest{Root: t.TempDir() + "/gone"}, nil, io.Discard); err == nil {
		t.Error("a root that is not there gave an export")
	}
}

// Setup may step the clock of its guest to anything: what it makes is new all the same. A file
// whose times lie an hour back, or ahead, is what a test can make without stepping the clock of
// this machine.
func TestExportIgnoresClock(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour, -20 * 365 * 24 * time.Hour} {
		root := t.TempDir()
		plant(t, root+"/old", "old")
		future := time.Now().Add(2 * time.Hour)
		if err := os.Chtimes(root+"/old", future, future); err != nil {
			t.Fatal(err)
		}
		known := takeInventoryOf(t, protocol.ExportRequest{Root: root})
		plant(t, root+"/new", "new")
		plant(t, root+"/old", "now")
		for _, name := range []string{"/new", "/old"} {
			if err := os.Chtimes(root+name, time.Now().Add(step), time.Now().Add(step)); err != nil {
				t.Fatal(err)
			}
		}
		if got := exported(t, protocol.ExportRequest{Root: root}, known); got["new"] != "new" || got["old"] != "now" || len(got) != 2 {
			t.Errorf("stepped by %v: %v", step, got)
		}
	}
}

func TestExportInvalidRequest(t *testing.T) {
	for _, text := range []string{"", "{", `{"root":"/","known":-1}`, `{"root":"/","known":7}`, `{"root":"/","known":32}` + "\nshort", `{"root":"/","known":1152921504606846976}`, "[" + strings.Repeat(" ", maxExportRequest)} {
		if err := serveExport(bufio.NewReader(strings.NewReader(text)), io.Discard); err == nil {
			t.Errorf("%.40q was answered", text)
		}
	}
}

// entryWithout is a file of a directory that cannot be looked at.
type entryWithout struct {
	fs.DirEntry
	dir bool
	err error
}

func (e entryWithout) IsDir() bool                { return e.dir }
func (e entryWithout) Info() (fs.FileInfo, error) { return nil, e.err }

// A file that went meanwhile is left out; one that cannot be read is an error.
func TestExportSkipsWhatWent(t *testing.T) {
	h := &exporter{each: func(path string, _ fs.FileInfo) error { return fmt.Errorf("%s was taken", path) }}
	for what, c := range map[string]struct {
		entry entryWithout
		want  error
	}{
		"one that went":   {entryWithout{err: fs.ErrNotExist}, nil},
		"a sick disk":     {entryWithout{err: unix.EIO}, unix.EIO},
		"a directory too": {entryWithout{dir: true, err: unix.EIO}, unix.EIO},
	} {
		if got := h.visit("/var/log/journal", c.entry, nil); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}

func TestExportWholeDirectories(t *testing.T) {
	root := t.TempDir()
	plant(t, root+"/var/lib/db/table", "rows")
	plant(t, root+"/var/lib/db/log/now", "begun")
	plant(t, root+"/var/lib/dbother", "another")
	plant(t, root+"/etc/other/conf", "as it was")
	plant(t, root+"/etc/db/conf", "settings")
	req := protocol.ExportRequest{Root: root}
	known := takeInventoryOf(t, req)
	req.Whole = [][]string{{root + "/etc/db", root + "/var/lib/db"}, {root + "/etc/other"}, {root + "/not/there"}}
	if got := exported(t, req, known); len(got) != 0 {
		t.Errorf("what nobody touched is taken: %v", got)
	}
	plant(t, root+"/var/lib/db/log/now", "gone on")
	got := exported(t, req, known)
	if got["var/lib/db/table"] != "rows" || got["var/lib/db/log/now"] != "gone on" || got["var/lib/db/"] != "/" || got["etc/db/conf"] != "settings" {
		t.Errorf("a part of a database is taken: %v", got)
	}
	if _, ok := got["var/lib/dbother"]; ok || got["etc/other/conf"] != "" {
		t.Errorf("more than the database is taken: %v", got)
	}
}

func TestExportSkipsLinksToSkipped(t *testing.T) {
	root := t.TempDir()
	plant(t, root+"/etc/own.pem", "of this box")
	for name, target := range map[string]string{"etc/1a2b.0": "own.pem", "elsewhere": "own.pem", "etc/self": "etc/own.pem"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	got := exported(t, protocol.ExportRequest{Root: root, Skip: []string{root + "/etc/own.pem"}}, nil)
	for _, name := range []string{"etc/own.pem", "etc/1a2b.0"} {
		if _, ok := got[name]; ok {
			t.Errorf("%s is taken", name)
		}
	}
	if got["elsewhere"] != "-> own.pem" || got["etc/self"] != "-> etc/own.pem" {
		t.Errorf("links to other files are not: %v", got)
	}
}

// described is a file as another moment, or another layer of an overlay, has it.
type described struct {
	fs.FileInfo
	stat syscall.Stat_t
}

func (d *described) Sys() any { return &d.stat }

func describe(t *testing.T, path string, dev, ino uint64) *described {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	d := &described{info, *stat(info)}
	d.stat.Dev, d.stat.Ino, d.stat.Nlink = dev, ino, 2
	return d
}

// written is the archive of what entries writes.
func written(t *testing.T, root string, entries func(h *exporter) error) (*tar.Reader, error) {
	t.Helper()
	var buf bytes.Buffer
	h := &exporter{req: protocol.ExportRequest{Root: root}, tar: tar.NewWriter(&buf), links: map[inode]string{}}
	err := errors.Join(entries(h), h.tar.Flush())
	return tar.NewReader(&buf), err
}

// The layers of an overlay number their files apart, so two files may have one number.
func TestExportSameInodeInTwoLayers(t *testing.T) {
	root := t.TempDir()
	plant(t, root+"/image", "of the image")
	plant(t, root+"/setup", "of setup")
	r, err := written(t, root, func(h *exporter) error {
		return errors.Join(h.entry(root+"/image", describe(t, root+"/image", 1, 7)), h.entry(root+"/setup", describe(t, root+"/setup", 2, 7)))
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		head, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil || head.Typeflag != tar.TypeReg {
			t.Errorf("%s is a link to %q: %v", head.Name, head.Linkname, err)
		}
	}
}

// A name that went before it was read is in no archive, so nothing can be a link to it.
func TestExportHardLinkToRemovedFile(t *testing.T) {
	root := t.TempDir()
	plant(t, root+"/a", "text")
	plant(t, root+"/b", "text")
	a, b := describe(t, root+"/a", 1, 7), describe(t, root+"/b", 1, 7)
	if err := os.Remove(root + "/a"); err != nil {
		t.Fatal(err)
	}
	r, err := written(t, root, func(h *exporter) error { return errors.Join(h.entry(root+"/a", a), h.entry(root+"/b", b)) })
	if err != nil {
		t.Fatal(err)
	}
	if head, err := r.Next(); err != nil || head.Name != "b" || head.Typeflag != tar.TypeReg {
		t.Errorf("%+v, %v", head, err)
	}
}

// A box may change its files while they are read, and an archive is right or an error.
func TestExportOfReplacedFiles(t *testing.T) {
	root := t.TempDir()
	plant(t, root+"/file", "text")
	if err := os.Symlink("file", root+"/link"); err != nil {
		t.Fatal(err)
	}
	file, link := describe(t, root+"/file", 1, 7), describe(t, root+"/link", 1, 8)
	for _, path := range []string{root + "/file", root + "/link"} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := written(t, root, func(h *exporter) error { return h.entry(root+"/link", link) }); err != nil {
		t.Errorf("a link that went: %v", err)
	}
	if err := unix.Mkfifo(root+"/file", 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := written(t, root, func(h *exporter) error { return h.entry(root+"/file", file) })
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a pipe was written as a file")
		}
	case <-time.After(5 * time.Minute):
		t.Error("the export waits for a writer of a pipe")
	}
}

// Extended attributes are part of a setup result: access lists, of directories too, and those of users.
func TestExportKeepsAttributes(t *testing.T) {
	root := t.TempDir()
	plant(t, root+"/dir/file", "x")
	list := "\x02\x00\x00\x00" + "\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00\x04\x00\xe8\x03\x00\x00" +
		"\x04\x00\x00\x00\xff\xff\xff\xff" + "\x10\x00\x04\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff"
	for _, a := range []struct{ path, name, value string }{
		{"/dir", "system.posix_acl_default", list}, {"/dir/file", "system.posix_acl_access", list}, {"/dir/file", "user.note", "mine"}, {"/dir/file", "user.a=b", "not here"},
	} {
		if err := unix.Setxattr(root+a.path, a.name, []byte(a.value), 0); errors.Is(err, unix.ENOTSUP) {
			t.Skip("the file system of temporary files has no such attributes")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var buf bytes.Buffer
	request := fmt.Sprintf(`{"root": %q}`+"\n", root)
	if err := serveExport(bufio.NewReader(strings.NewReader(request)), &buf); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for r := tar.NewReader(&buf); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		for record, value := range h.PAXRecords {
			if name, ok := strings.CutPrefix(record, "SCHILY.xattr."); ok {
				got[h.Name+" "+name] = value
			}
		}
	}
	want := map[string]string{"dir/ system.posix_acl_default": list, "dir/file system.posix_acl_access": list, "dir/file user.note": "mine"}
	if !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
