package source

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentbox/agentbox"
)

// manifest describes a tree completely but for the times of directories, and of files of git that
// have none that matters. As text, whose digest is that of the source, it is
//
//	agentbox source 1
//	project "NAME"
//	d MODE "PATH"
//	f MODE TIME SIZE SHA256 "PATH"
//	l TIME "TARGET" "PATH"
//
// with modes in octal, times in nanoseconds (0: none), texts quoted as in Go, and the entries in
// order of their paths' bytes, the top "." first.
type manifest struct {
	Project string // the name of its project
	Entries []entry
}

// entry is one path of a tree. The fields that its kind has no use for are zero.
type entry struct {
	Path   string
	Kind   byte        // of kindDir, kindFile, kindLink
	Mode   fs.FileMode // permissions
	Time   int64
	Size   int64
	Digest agentbox.Digest
	Target string
}

const (
	kindDir  = 'd'
	kindFile = 'f'
	kindLink = 'l'

	header     = "agentbox source 1"
	maxEntries = 10_000_000
	maxLine    = 64 << 10
)

// sort orders the entries. The top, ".", is first: no other path begins with a dot and ends there.
func (m *manifest) sort() {
	slices.SortFunc(m.Entries, func(a, b entry) int { return compare(a.Path, b.Path) })
}

func compare(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == ".":
		return -1
	case b == ".":
		return 1
	}
	return cmp.Compare(a, b)
}

func (m *manifest) encode() []byte {
	b := make([]byte, 0, 128*len(m.Entries)+256)
	b = append(b, header+"\nproject "...)
	b = append(strconv.AppendQuote(b, m.Project), '\n')
	for _, e := range m.Entries {
		b = append(b, e.Kind, ' ')
		switch e.Kind {
		case kindLink:
			b = append(strconv.AppendInt(b, e.Time, 10), ' ')
			b = append(strconv.AppendQuote(b, e.Target), ' ')
		default:
			b = append(strconv.AppendUint(b, uint64(e.Mode), 8), ' ')
		}
		if e.Kind == kindFile {
			b = append(strconv.AppendInt(b, e.Time, 10), ' ')
			b = append(strconv.AppendInt(b, e.Size, 10), ' ')
			b = append(b, e.Digest.Hex()...)
			b = append(b, ' ')
		}
		b = append(strconv.AppendQuote(b, e.Path), '\n')
	}
	return b
}

// parse reads a manifest, which may have come from another machine. Every path of the result stays
// below the top, and has a directory above it. Nothing in a git directory is a link or leads to
// another repository. The error is Corrupt.
func parse(r io.Reader) (*manifest, error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxLine)
	if !in.Scan() || in.Text() != header {
		return nil, corruptError("it does not begin with %q", header)
	}
	m, above := &manifest{}, map[string]bool{}
	if !in.Scan() {
		return nil, corruptError("it is cut short")
	}
	name, err := strconv.Unquote(strings.TrimPrefix(in.Text(), "project "))
	if m.Project = name; err != nil || name == "" {
		return nil, corruptError("no project in %q", in.Text())
	}
	for in.Scan() {
		e, err := parseEntry(in.Text())
		if err == nil {
			err = e.check(m.last(), above)
		}
		if err != nil || len(m.Entries) == maxEntries {
			return nil, corruptError("line %d: %v", len(m.Entries)+3, err)
		}
		m.Entries = append(m.Entries, e)
	}
	if err := in.Err(); err != nil || len(m.Entries) == 0 {
		return nil, corruptError("it is cut short: %v", err)
	}
	return m, nil
}

func corruptError(format string, args ...any) error {
	return agentbox.Errorf(agentbox.Corrupt, "this is no manifest of a source: "+format, args...)
}

// last is the path of the last entry, "" before the first.
func (m *manifest) last() string {
	if len(m.Entries) == 0 {
		return ""
	}
	return m.Entries[len(m.Entries)-1].Path
}

// parseEntry reads one line, and checks its form only.
func parseEntry(line string) (e entry, err error) {
	fields := strings.SplitN(line, " ", 2)
	if len(fields) != 2 || len(fields[0]) != 1 {
		return e, fmt.Errorf("%q", line)
	}
	e.Kind = fields[0][0]
	f := fieldReader{rest: fields[1]}
	switch e.Kind {
	case kindDir:
		e.Mode = fs.FileMode(f.number(8))
	case kindFile:
		e.Mode, e.Time, e.Size = fs.FileMode(f.number(8)), f.number(10), f.number(10)
		if e.Digest, f.failed = agentbox.ParseDigest("sha256:" + f.word()); f.failed != nil {
			return e, f.failed
		}
	case kindLink:
		e.Time, e.Target = f.number(10), f.quoted()
	default:
		return e, fmt.Errorf("an entry of kind %q", e.Kind)
	}
	e.Path = f.quoted()
	if f.failed == nil && f.rest != "" {
		f.failed = fmt.Errorf("%q follows", f.rest)
	}
	return e, f.failed
}

// fieldReader reads the fields of a line; failed is its first error.
type fieldReader struct {
	rest   string
	failed error
}

func (f *fieldReader) word() (word string) {
	word, f.rest, _ = strings.Cut(f.rest, " ")
	return word
}

func (f *fieldReader) number(base int) int64 {
	n, err := strconv.ParseInt(f.word(), base, 64)
	f.failed = cmp.Or(f.failed, err)
	return n
}

func (f *fieldReader) quoted() string {
	prefix, err := strconv.QuotedPrefix(f.rest)
	f.failed = cmp.Or(f.failed, err)
	text, err := strconv.Unquote(prefix)
	f.failed = cmp.Or(f.failed, err)
	f.rest = strings.TrimPrefix(f.rest[len(prefix):], " ")
	return text
}

// check checks an entry that follows last. above has the directories so far.
func (e entry) check(last string, above map[string]bool) error {
	switch {
	case last == "" && (e.Path != "." || e.Kind != kindDir):
		return fmt.Errorf("%q comes before the top", e.Path)
	case e.Mode&^fs.ModePerm != 0 || e.Size < 0 || e.Kind == kindLink && (e.Target == "" || strings.Contains(e.Target, "\x00")):
		return fmt.Errorf("%q has a mode, size or target that no file has", e.Path)
	case last == "":
		above["."] = true
		return nil
	case !filepath.IsLocal(e.Path) || path.Clean(e.Path) != e.Path || strings.Contains(e.Path, "\x00") || compare(last, e.Path) >= 0:
		return fmt.Errorf("%q is no path, or is out of order", e.Path)
	case !above[path.Dir(e.Path)]:
		return fmt.Errorf("%q is in no directory", e.Path)
	case e.borrows():
		return fmt.Errorf("%q leads out of its repository", e.Path)
	}
	if e.Kind == kindDir {
		above[e.Path] = true
	}
	return nil
}

// borrows reports whether an entry is something of a git directory that may lead elsewhere. What is
// captured never has one.
func (e entry) borrows() bool {
	dir, base := path.Split(strings.ToLower(e.Path))
	if !isOfGit(e.Path) {
		return false
	}
	return e.Kind == kindLink || base == "commondir" || strings.HasSuffix(dir, "objects/info/") && strings.HasSuffix(base, "alternates")
}

// isOfGit reports whether a path is or lies in a git directory, which workspace.Stage puts at .git.
func isOfGit(name string) bool {
	return strings.Contains("/"+strings.ToLower(name)+"/", "/.git/")
}

func digest(text []byte) (agentbox.Digest, error) {
	d, _, err := agentbox.DigestOf(bytes.NewReader(text))
	return d, err
}
