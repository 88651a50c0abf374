package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/agentbox/workspace"
)

// streamHeader begins the stream in which a source travels. The size of the manifest follows, then
// the manifest. Each file that the receiver lacks is a line "SHA256 SIZE" and its bytes. The last
// line is "end".
const streamHeader = "agentbox source stream 1"

// maxManifest bounds the manifest of a stream, in bytes.
const maxManifest = 2 << 30

// Manifest writes the manifest of a source.
func (s *Store) Manifest(d agentbox.Digest, w io.Writer) error {
	f, err := os.Open(filepath.Join(s.path(d), manifestFile))
	if err != nil {
		return notHereError(d)
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// Missing returns the digests of the files that a source has and no source here.
func (s *Store) Missing(manifest io.Reader) ([]agentbox.Digest, error) {
	m, err := parse(manifest)
	if err != nil {
		return nil, err
	}
	have := s.index()
	var out []agentbox.Digest
	for _, e := range m.Entries {
		if _, ok := have[e.Digest]; e.Kind == kindFile && !ok {
			have[e.Digest] = located{}
			out = append(out, e.Digest)
		}
	}
	return out, nil
}

// located is a file of some source.
type located struct {
	tree string
	entry
}

// index finds the files of all sources by their digests. A manifest that cannot be read is as one
// that is not there.
func (s *Store) index() map[agentbox.Digest]located {
	all := map[agentbox.Digest]located{}
	here, _ := s.Unneeded(nil)
	for _, u := range here {
		m, err := s.readManifest(u.Digest)
		if err != nil {
			continue
		}
		for _, e := range m.Entries {
			if e.Kind == kindFile {
				all[e.Digest] = located{s.tree(u.Digest), e}
			}
		}
	}
	return all
}

// Export writes a source as a stream, with those of its files that are lacking there.
func (s *Store) Export(ctx context.Context, d agentbox.Digest, lacking []agentbox.Digest, w io.Writer) error {
	defer s.hold(d)()
	var text bytes.Buffer
	if err := s.Manifest(d, &text); err != nil {
		return err
	}
	m, err := parse(bytes.NewReader(text.Bytes()))
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<20)
	fmt.Fprintf(out, "%s %d\n", streamHeader, text.Len())
	_, _ = out.Write(text.Bytes()) // its error stays, and Flush returns it
	want := map[agentbox.Digest]bool{}
	for _, d := range lacking {
		want[d] = true
	}
	for _, e := range m.Entries {
		if e.Kind != kindFile || !want[e.Digest] {
			continue
		}
		delete(want, e.Digest)
		if err := errors.Join(ctx.Err(), send(out, filepath.Join(s.tree(d), filepath.FromSlash(e.Path)), e)); err != nil {
			return err
		}
	}
	_, _ = out.WriteString("end\n")
	return out.Flush()
}

// ExportWhole writes a source as a stream, for who has nothing of it.
func (s *Store) ExportWhole(ctx context.Context, d agentbox.Digest, w io.Writer) error {
	m, err := s.readManifest(d)
	if err != nil {
		return notHereError(d)
	}
	var all []agentbox.Digest
	for _, e := range m.Entries {
		if e.Kind == kindFile {
			all = append(all, e.Digest)
		}
	}
	return s.Export(ctx, d, all, w)
}

func send(w io.Writer, file string, e entry) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(w, "%s %d\n", e.Digest.Hex(), e.Size)
	_, err = io.CopyN(w, f, e.Size)
	return err
}

// Import makes a source of a stream. Every file is compared with its digest, and nothing is left of
// a source that does not come whole. It stays until release is called. The error is Corrupt for a
// stream that is none, or whose files are not what it says; NotFound for a file that is neither in
// it nor here.
func (s *Store) Import(ctx context.Context, r io.Reader) (c Captured, release func(), err error) {
	in := bufio.NewReaderSize(r, 1<<20)
	text, err := readManifestOf(in)
	if err != nil {
		return c, nil, err
	}
	m, err := parse(bytes.NewReader(text))
	if err != nil {
		return c, nil, err
	}
	d, err := digest(m.encode())
	if err != nil {
		return c, nil, err
	}
	if c, release, err := s.Open(ctx, d); err == nil {
		_, err = io.Copy(io.Discard, in)
		return c, release, err
	}
	dir, err := os.MkdirTemp(s.Dir, newPrefix)
	if err != nil {
		return c, nil, agentbox.MarkNoSpace(err)
	}
	defer os.RemoveAll(dir)
	i := &importing{in: in, manifest: m, tree: filepath.Join(dir, treeDir), have: s.index(), first: map[agentbox.Digest]entry{}}
	if err := i.all(ctx); err != nil {
		return c, nil, agentbox.MarkNoSpace(err)
	}
	if repo, err := workspace.Describe(ctx, i.tree); err != nil || repo.GitDir != filepath.Join(repo.Root, ".git") || repo.Subdir != "" {
		return c, nil, corruptError("it has no repository of its own: %v", err)
	}
	defer s.hold(d)()
	if err := s.adopt(dir, m, m.encode(), d, nil); err != nil {
		return c, nil, err
	}
	return s.Open(ctx, d)
}

// readManifestOf reads the beginning of a stream, up to the first file.
func readManifestOf(in *bufio.Reader) ([]byte, error) {
	line, err := readLine(in)
	var size int64
	if err == nil {
		_, err = fmt.Sscanf(line, streamHeader+" %d", &size)
	}
	if err != nil || size < 0 || size > maxManifest {
		return nil, corruptError("it does not begin with %q", streamHeader)
	}
	var text bytes.Buffer // grows with what comes, not with what is promised
	if _, err := io.CopyN(&text, in, size); err != nil {
		return nil, corruptError("it is cut short: %v", err)
	}
	return text.Bytes(), nil
}

func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	return strings.TrimSuffix(string(line), "\n"), err
}

// importing is one run of Import. What it writes it writes through root.
type importing struct {
	in       *bufio.Reader
	manifest *manifest
	tree     string
	root     *os.Root
	have     map[agentbox.Digest]located
	first    map[agentbox.Digest]entry // the first entry of each file that the tree may get
	done     map[string]bool
}

// all writes the tree: directories, the files that come, those that are here, and last the links,
// so that nothing is written through one.
func (i *importing) all(ctx context.Context) (err error) {
	if err := os.Mkdir(i.tree, 0o700); err != nil {
		return err
	}
	if i.root, err = os.OpenRoot(i.tree); err != nil {
		return err
	}
	defer i.root.Close()
	i.done = map[string]bool{}
	for _, e := range i.manifest.Entries {
		if _, ok := i.first[e.Digest]; e.Kind == kindFile && !ok {
			i.first[e.Digest] = e
		}
		if e.Kind == kindDir && e.Path != "." {
			err = errors.Join(err, i.root.Mkdir(e.Path, 0o700))
		}
	}
	if err == nil {
		err = i.receive(ctx)
	}
	for _, e := range i.manifest.Entries {
		if err == nil && e.Kind == kindFile && !i.done[e.Path] {
			err = errors.Join(i.reuse(e), ctx.Err())
		}
	}
	for _, e := range i.manifest.Entries {
		if err == nil && e.Kind != kindFile {
			err = i.finish(e)
		}
	}
	return err
}

func (i *importing) receive(ctx context.Context) error {
	for ctx.Err() == nil {
		line, err := readLine(i.in)
		if err != nil {
			return corruptError("it is cut short: %v", err)
		}
		if line == "end" {
			return nil
		}
		hex, _, _ := strings.Cut(line, " ")
		d, err := agentbox.ParseDigest("sha256:" + hex)
		e, ok := i.first[d]
		if err != nil || !ok || i.done[e.Path] || line != fmt.Sprintf("%s %d", d.Hex(), e.Size) {
			return corruptError("a file follows that it does not have: %q", line)
		}
		if err := i.write(e, i.in); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// reuse makes a file of one that is in the tree or in another source. A file with the same mode and
// time becomes a link.
func (i *importing) reuse(e entry) error {
	from := located{i.tree, i.first[e.Digest]}
	if !i.done[from.Path] {
		from = i.have[e.Digest]
	}
	if from.tree == "" {
		return agentbox.Errorf(agentbox.NotFound, "%q is neither in the stream nor here", e.Path)
	}
	path := filepath.Join(from.tree, filepath.FromSlash(from.Path))
	same := entry{Path: e.Path, Kind: kindFile, Mode: from.Mode, Time: from.Time, Size: from.Size, Digest: e.Digest}
	if fi, err := os.Lstat(path); err == nil && same == e && fi.Size() == e.Size && os.Link(path, filepath.Join(i.tree, filepath.FromSlash(e.Path))) == nil {
		i.done[e.Path] = true
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return i.write(e, f)
}

// write writes e.Size bytes, which must have its digest.
func (i *importing) write(e entry, r io.Reader) error {
	f, err := i.root.OpenFile(e.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	d, n, err := agentbox.DigestOf(io.TeeReader(io.LimitReader(r, e.Size), f))
	if err == nil && (d != e.Digest || n != e.Size) {
		err = corruptError("%q is not what it should be", e.Path)
	}
	if err == nil {
		err = f.Chmod(e.Mode | 0o400)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = i.setTime(e)
	}
	i.done[e.Path] = true
	return err
}

func (i *importing) finish(e entry) error {
	if e.Kind == kindDir {
		return i.root.Chmod(e.Path, e.Mode|0o700)
	}
	err := i.root.Symlink(e.Target, e.Path)
	if err == nil {
		err = i.setTime(e)
	}
	return err
}

// setTime sets the time of a file or a link. The directories above it are ours.
func (i *importing) setTime(e entry) error {
	if e.Time == 0 {
		return nil
	}
	ts := unix.NsecToTimespec(e.Time)
	err := unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(i.tree, filepath.FromSlash(e.Path)), []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return &fs.PathError{Op: "utimes", Path: e.Path, Err: err}
	}
	return nil
}
