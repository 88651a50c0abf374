package artifact

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentbox/agentbox"
)

// Limits bound what is kept of one attempt. Zero allows nothing.
type Limits struct {
	Files int
	Bytes int64 // of all files
}

// SizeRecord is the PAX record with the size of a file that the box did not send, as it is too large.
const SizeRecord = "AGENTBOX.size"

// DefaultLimits are those of tasks: a thousand files, and a gibibyte.
var DefaultLimits = Limits{Files: 1000, Bytes: 1 << 30}

// File is one artifact. Its name comes from the box, and was checked to stay below the directory
// and to be safe on a terminal.
type File struct {
	Name   string `json:"name"` // relative to the directory of the configuration
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// maxNotes bounds the notes about files that are left out: a box can send a million names.
const maxNotes = 20

// Collect writes the files of a tar archive that match globs below dir, which it creates, and
// reports what it left out. It keeps only regular files, for their owner only whatever modes the
// archive has; no name leads out of dir, and nothing is kept beyond the limits. globs were checked
// by config. The caller bounds archive. The error is Corrupt if archive is none, or ctx's cause;
// what was written before stays.
func Collect(ctx context.Context, archive io.Reader, globs []string, dir string, l Limits) (Collected, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Collected{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Collected{}, err
	}
	defer root.Close()
	c := &collector{root: root, left: l}
	err = entries(ctx, archive, "artifacts", func(h *tar.Header, content io.Reader) error {
		name, wanted := c.selectEntry(h, globs)
		if !wanted {
			return nil
		}
		return c.writeFile(name, content, h.Size)
	})
	return c.Collected, err
}

// entries calls f for each entry of an archive that a box sent as what, until f fails.
func entries(ctx context.Context, archive io.Reader, what string, f func(h *tar.Header, content io.Reader) error) error {
	in := tar.NewReader(archive)
	for ctx.Err() == nil {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return agentbox.Errorf(agentbox.Corrupt, "what the box sent as %s is no archive: %w", what, err)
		}
		if err := f(h, in); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// Collected is what was kept, and what was not. Files are in the order of the archive.
type Collected struct {
	Files []File
	Notes []string // what was left out and why; at most maxNotes
	Lost  int      // how many regular files were left out
}

// collector is the state of one Collect; left is what may still be kept.
type collector struct {
	root *os.Root
	left Limits
	Collected
}

// note tells people about an entry that is left out, up to maxNotes times.
func (c *collector) note(format string, args ...any) {
	if len(c.Notes) < maxNotes {
		c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
	}
}

// addLost is note for a file whose content is not kept.
func (c *collector) addLost(format string, args ...any) {
	c.Lost++
	c.note(format, args...)
}

// selectEntry tells whether an entry is kept, and under which name. Only what was asked for and is
// left out gets a note.
func (c *collector) selectEntry(h *tar.Header, globs []string) (name string, ok bool) {
	name = path.Clean(strings.TrimPrefix(h.Name, "./"))
	// A name that is too long to match gets a note, in case it was meant.
	meant := len(name) > maxMatched
	for _, g := range globs {
		meant = meant || match(g, name)
	}
	switch {
	case !meant || h.Typeflag == tar.TypeDir:
		return name, false
	case !validName(name):
		c.addLost("%q is left out: it is no name for a file here", agentbox.Clip(h.Name))
	case h.Typeflag == tar.TypeLink:
		c.addLost("%s is left out: it is a link to another file of the box", name)
	case h.Typeflag != tar.TypeReg:
		c.note("%s is left out: it is no regular file", name)
	case c.left.Files <= 0:
		c.addLost("%s is left out: there are too many files", name)
	case h.PAXRecords[SizeRecord] != "":
		size, _ := strconv.ParseInt(h.PAXRecords[SizeRecord], 10, 64) // 0: the box says something else
		c.addLost("%s is left out: it is too large (%d bytes)", name, size)
	case h.Size < 0 || h.Size > c.left.Bytes:
		c.addLost("%s is left out: it is too large (%d bytes)", name, h.Size)
	default:
		return name, true
	}
	return name, false
}

// Bounds of names. Each part of a name is a directory to make, or a file.
const (
	maxName  = 1024
	maxParts = 64
	maxPart  = 255

	maxMatched = 4096 // longer names count as matching: to find out would take too long
)

// validName tells whether a name stays below the directory and is safe to print.
func validName(name string) bool {
	parts := strings.Split(name, "/")
	return filepath.IsLocal(name) && name != "." && len(name) <= maxName && len(parts) <= maxParts && utf8.ValidString(name) &&
		!slices.ContainsFunc(parts, func(p string) bool { return len(p) > maxPart }) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// writeFile writes one file below the directory. A file whose name is taken, or that another one
// blocks, is no error: the first one stays.
func (c *collector) writeFile(name string, content io.Reader, size int64) error {
	if err := c.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		c.addLost("%s is left out: another one is in its way", name)
		return nil
	}
	f, err := c.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		c.addLost("%s is left out: it came twice", name)
		return nil
	}
	if err != nil {
		return err
	}
	// The content is hashed as it is written, so that nobody can change it in between.
	sum, n, err := agentbox.DigestOf(io.TeeReader(io.LimitReader(content, size), f))
	if err == nil {
		err = f.Sync() // the box, which has the only other copy, is removed next
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, c.root.Remove(name))
	}
	c.left.Files--
	c.left.Bytes -= n
	c.Files = append(c.Files, File{Name: name, Size: n, SHA256: sum.Hex()})
	return nil
}
