//go:build linux

package agent

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// ExportName is the program name under which the agent writes an archive of changed files. It is a
// process of its own, so that its memory is freed afterwards.
const ExportName = "agentbox-export"

const maxExportRequest = 1 << 20

// ServeExport answers one request on standard input with an archive or an inventory on standard
// output.
func ServeExport() error {
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	if err := serveExport(bufio.NewReaderSize(os.Stdin, maxExportRequest), out); err != nil {
		return err
	}
	return out.Flush()
}

// serveExport reads a request, one line of JSON, and the inventory that may follow it, and writes
// the answer to out. After an error out may have the beginning of an answer.
func serveExport(in *bufio.Reader, out io.Writer) error {
	line, err := in.ReadSlice('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("malformed request: %w", err)
	}
	var req protocol.ExportRequest
	if err := json.Unmarshal(line, &req); err != nil {
		return fmt.Errorf("malformed request: %w", err)
	}
	known, err := readInventory(in, req.Known)
	if err != nil {
		return err
	}
	if req.Inventory {
		return takeInventory(req, out)
	}
	return export(req, known, out)
}

// export writes the archive that req asks for, sorted by name, so that equal trees give equal
// archives. It reads as root, stays on the root's file system, and changes nothing.
func export(req protocol.ExportRequest, known inventory, out io.Writer) error {
	h := &exporter{req: req, known: known, tar: tar.NewWriter(out), links: map[inode]string{}}
	for _, dirs := range req.Whole {
		if err := h.changedWithin(dirs); err != nil {
			return err
		}
	}
	if err := h.walk(h.entry); err != nil {
		return err
	}
	return h.tar.Close()
}

// walk calls each for every requested file that is not skipped. The root itself is left out.
func (e *exporter) walk(each func(string, fs.FileInfo) error) error {
	e.skip, e.each, e.parentsWritten = map[string]bool{}, each, map[string]bool{}
	for _, path := range e.req.Skip {
		e.skip[filepath.Clean(path)] = true
	}
	info, err := os.Lstat(e.req.Root)
	if err != nil {
		return err
	}
	e.device = stat(info).Dev
	roots := e.req.Paths
	if len(roots) == 0 {
		roots = []string{e.req.Root}
	}
	for _, root := range roots {
		if err := e.parents(root); err != nil {
			return err
		}
		if err := filepath.WalkDir(root, e.visit); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

type exporter struct {
	req   protocol.ExportRequest
	known inventory
	each  func(path string, info fs.FileInfo) error
	tar   *tar.Writer
	// Of the root: directories on another one are mounts, and left out.
	device         uint64
	skip           map[string]bool
	whole          []string         // directories of which everything is written
	links          map[inode]string // the name under which a file with several was written
	parentsWritten map[string]bool  // directories written because something below them was asked for
}

// inode names a file. Layers of an overlay number theirs independently, hence the device.
type inode struct{ dev, ino uint64 }

// parents writes the directories between root and path, so that they keep owner and mode.
func (e *exporter) parents(path string) error {
	dir := filepath.Dir(path)
	rel, err := filepath.Rel(e.req.Root, dir)
	if err != nil || !filepath.IsLocal(rel) || rel == "." || e.parentsWritten[dir] {
		return nil
	}
	e.parentsWritten[dir] = true
	if err := e.parents(dir); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return nil // then there is nothing below it
	}
	return e.each(dir, info)
}

func stat(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// visit passes one file to each or leaves it out. It does not enter a directory that is left out.
func (e *exporter) visit(path string, d fs.DirEntry, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	info, err := d.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	// Only of directories: a file of an overlay may have the device of its layer.
	leave := e.skip[path] || e.leadsToSkipped(path, info) || d.IsDir() && stat(info).Dev != e.device
	switch {
	case leave && d.IsDir():
		return fs.SkipDir
	case leave || path == e.req.Root:
		return nil
	// An empty inventory knows no file, so all of them are given.
	case len(e.known) > 0 && e.known[fileDigest(path, info)] && !e.isInWhole(path):
		return nil
	}
	return e.each(path, info)
}

func (e *exporter) leadsToSkipped(path string, info fs.FileInfo) bool {
	if info.Mode().Type() != fs.ModeSymlink {
		return false
	}
	target, err := os.Readlink(path)
	return err == nil && !strings.Contains(target, "/") && e.skip[filepath.Join(filepath.Dir(path), target)]
}

// changedWithin adds those dirs, written as a whole, in which anything has changed.
func (e *exporter) changedWithin(dirs []string) error {
	look := &exporter{req: protocol.ExportRequest{Root: e.req.Root, Skip: e.req.Skip, Paths: dirs}, known: e.known}
	changed := false
	err := look.walk(func(path string, _ fs.FileInfo) error {
		changed = changed || slices.ContainsFunc(dirs, func(dir string) bool { return below(dir, path) })
		return nil
	})
	if changed {
		e.whole = append(e.whole, dirs...)
	}
	return err
}

// isInWhole tells whether a path is in, or is, a directory that is written as a whole.
func (e *exporter) isInWhole(path string) bool {
	return slices.ContainsFunc(e.whole, func(dir string) bool { return below(dir, path) })
}

// below tells whether path is dir or lies in it. Both are clean; dir is not the root.
func below(dir, path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// entry writes one file. Devices, sockets and pipes are left out. Owner, mode and mtime are kept,
// but not names of users, which mean nothing elsewhere, nor the times that reading changes: equal
// files must give equal headers on any machine. Further names of a file are hard links.
func (e *exporter) entry(path string, info fs.FileInfo) error {
	var target string
	var err error
	switch info.Mode().Type() {
	case 0, fs.ModeDir:
	case fs.ModeSymlink:
		if target, err = os.Readlink(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
	default:
		return nil
	}
	head, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	st := stat(info)
	head.Name, head.Format = e.name(path, info.IsDir()), tar.FormatPAX
	// Equal files must give equal headers, on whatever machine.
	head.Uid, head.Gid, head.Uname, head.Gname = int(st.Uid), int(st.Gid), "", ""
	head.AccessTime, head.ChangeTime = time.Time{}, time.Time{}
	if first, ok := e.links[inode{st.Dev, st.Ino}]; ok {
		head.Typeflag, head.Linkname, head.Size = tar.TypeLink, first, 0
		return e.tar.WriteHeader(head)
	}
	if info.Mode().IsRegular() || info.IsDir() {
		head.PAXRecords = attributes(path)
	}
	if info.Mode().IsRegular() {
		return e.file(path, head, st)
	}
	return e.begin(head, st)
}

// begin writes the header of an entry, and remembers its name if the file has others.
func (e *exporter) begin(head *tar.Header, st *syscall.Stat_t) error {
	if head.Typeflag != tar.TypeDir && st.Nlink > 1 {
		e.links[inode{st.Dev, st.Ino}] = head.Name
	}
	return e.tar.WriteHeader(head)
}

// name is a path in the archive: relative to the root, with a slash at the end of a directory.
func (e *exporter) name(path string, dir bool) string {
	name := strings.TrimPrefix(strings.TrimPrefix(path, e.req.Root), "/")
	if dir {
		name += "/"
	}
	return name
}

// file writes a regular file with the size that it has when it is opened. A file that is gone is
// left out. One that became shorter or something else is an error: half a file would be taken for a
// whole one.
func (e *exporter) file(path string, head *tar.Header, st *syscall.Stat_t) error {
	// Without O_NONBLOCK, opening a named pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s became something else while it was read", path)
	}
	// The size in the header is that of the file which is open, not of the one that was listed.
	if head.Size = info.Size(); e.req.Most > 0 && head.Size > e.req.Most {
		head.PAXRecords, head.Size = map[string]string{protocol.SizeRecord: strconv.FormatInt(head.Size, 10)}, 0
	}
	if err := e.begin(head, st); err != nil {
		return err
	}
	if _, err := io.CopyN(e.tar, f, head.Size); err != nil {
		return fmt.Errorf("%s changed while it was read: %w", path, err)
	}
	return nil
}
