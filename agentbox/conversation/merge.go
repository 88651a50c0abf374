package conversation

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of what is kept for one agent and project. The oldest files beyond them are left out.
const (
	MaxBytes = 64 << 20
	MaxFiles = 5000
	maxName  = 512     // bytes of a name
	maxSeen  = 200_000 // entries of an archive that are looked at
)

// ErrTooMuch is the error for an archive with more entries than any agent's conversations have.
var ErrTooMuch = errors.New("it has more entries than can be looked at")

// file is one file of an archive. time is what the box claims.
type file struct {
	name string
	size int64
	time time.Time
}

// Merge writes an archive of the files of both archives. If a name is in both, fresh wins. dirs are
// the directories that count, slash-separated and relative to a home. fresh comes from a box:
// entries that are no plain file below dirs, could be a credential or exceed the bounds are left
// out. fresh and kept may be nil, and are read twice. The error is ErrTooMuch for an archive with
// too many entries, or that of one that cannot be read; what was written to w is then worthless.
func Merge(w io.Writer, fresh, kept io.ReadSeeker, dirs []string) error {
	var sources []io.ReadSeeker
	var have []map[string]file
	// The box's files come first, so that they win over what was kept.
	seen := map[string]bool{}
	for _, r := range []io.ReadSeeker{fresh, kept} {
		if r == nil {
			continue
		}
		files, err := list(r, dirs, seen)
		if err != nil {
			return err
		}
		sources, have = append(sources, r), append(have, files)
	}
	trim(have)
	out := tar.NewWriter(w)
	for i, r := range sources {
		if err := copyFiles(out, r, have[i]); err != nil {
			return err
		}
	}
	return out.Close()
}

// entries calls each for every entry of an archive, from its first byte.
func entries(r io.ReadSeeker, each func(h *tar.Header, content io.Reader) error) error {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := tar.NewReader(r)
	for n := 0; ; n++ {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read an archive of conversations: %w", err)
		}
		if n == maxSeen {
			return ErrTooMuch
		}
		if err := each(h, in); err != nil {
			return err
		}
	}
}

// list returns the files of an archive that may be kept, by name, and adds them to seen.
func list(r io.ReadSeeker, dirs []string, seen map[string]bool) (map[string]file, error) {
	files := map[string]file{}
	err := entries(r, func(h *tar.Header, _ io.Reader) error {
		if name, ok := nameOf(h, dirs); ok && !seen[name] {
			files[name] = file{name, h.Size, h.ModTime} // of two with one name the last, as tar does
		}
		return nil
	})
	for name := range files {
		seen[name] = true
	}
	return files, err
}

// Count returns how many files of an archive from a box may be kept.
func Count(fresh io.ReadSeeker, dirs []string) (int, error) {
	files, err := list(fresh, dirs, map[string]bool{})
	return len(files), err
}

// nameOf returns the name under which an entry is kept; ok is false if it is not kept. A leading ./
// is removed; otherwise the name must be canonical.
func nameOf(h *tar.Header, dirs []string) (name string, ok bool) {
	name = strings.TrimPrefix(h.Name, "./")
	switch {
	case h.Typeflag != tar.TypeReg, h.Size > MaxBytes, len(name) > maxName, !utf8.ValidString(name):
		return "", false
	case path.Clean("/"+name) != "/"+name, strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
		return "", false
	case isCredential(path.Base(name)):
		return "", false
	}
	below := func(dir string) bool { return strings.HasPrefix(name, dir+"/") }
	return name, slices.ContainsFunc(dirs, below)
}

// credentials are names of files in which programs keep credentials, maybe among conversations.
var credentials = []string{".credentials.json", "credentials.json", "credentials", "auth.json", "oauth_creds.json", "token.json", "tokens.json", ".env", ".netrc", ".npmrc", ".pypirc"}

// isCredential errs on the safe side: a conversation that is named like a key is lost.
func isCredential(base string) bool {
	base = strings.ToLower(base)
	return slices.Contains(credentials, base) || strings.HasPrefix(base, "id_") || strings.HasSuffix(base, ".pem") || strings.HasSuffix(base, ".key")
}

// trim removes the oldest files beyond the bounds, by the times that the box claims. A box that
// lies about them only loses its own newer files.
func trim(have []map[string]file) {
	var all []file
	for _, files := range have {
		for _, f := range files {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b file) int { return cmp.Or(b.time.Compare(a.time), strings.Compare(a.name, b.name)) })
	bytes := int64(0)
	for i, f := range all {
		if bytes += f.size; i < MaxFiles && bytes <= MaxBytes {
			continue
		}
		bytes -= f.size
		for _, files := range have {
			delete(files, f.name)
		}
	}
}

// copyFiles writes the chosen files of an archive, each once, with only its name, content and time.
func copyFiles(out *tar.Writer, r io.ReadSeeker, chosen map[string]file) error {
	return entries(r, func(h *tar.Header, content io.Reader) error {
		name := strings.TrimPrefix(h.Name, "./")
		f, ok := chosen[name]
		if !ok || h.Typeflag != tar.TypeReg || h.Size != f.size || !h.ModTime.Equal(f.time) {
			return nil
		}
		delete(chosen, name)
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: h.Size, Mode: 0o600, ModTime: h.ModTime.Truncate(time.Second), Format: tar.FormatPAX}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		_, err := io.Copy(out, content)
		return err
	})
}
