package history

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

// Bounds of what is kept of one agent and project. What does not fit is left out, the oldest first.
const (
	MaxBytes = 64 << 20
	MaxFiles = 5000
	maxName  = 512     // bytes of a name
	maxSeen  = 200_000 // entries of an archive that are looked at
)

// ErrTooMuch is of an archive with more entries than anybody's conversations have.
var ErrTooMuch = errors.New("it has more entries than can be looked at")

// file is one that an archive has. time is the box's word.
type file struct {
	name string
	size int64
	time time.Time
}

// Merge writes an archive of the files of both, those of fresh before those of kept where a name is
// in both. Both are read twice. dirs are the directories that count, slash-separated and relative
// to a home. fresh is of a box: what is not a plain file below dirs, could be a credential or is
// beyond the bounds is left out. fresh and kept may be nil. An archive that cannot be read is an
// error, and ErrTooMuch one that has too many entries; what was written to w is worth nothing then.
func Merge(w io.Writer, fresh, kept io.ReadSeeker, dirs []string) error {
	var sources []io.ReadSeeker
	var have []map[string]file
	// The box's files first: of a name that is in both, what was kept before is passed over.
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
	within(have)
	out := tar.NewWriter(w)
	for i, r := range sources {
		if err := copyFiles(out, r, have[i]); err != nil {
			return err
		}
	}
	return out.Close()
}

// entries calls each for the entries of an archive, from its first byte.
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

// list gives the files of an archive that may be kept, by name, without those that were seen. seen
// is added to.
func list(r io.ReadSeeker, dirs []string, seen map[string]bool) (map[string]file, error) {
	files := map[string]file{}
	err := entries(r, func(h *tar.Header, _ io.Reader) error {
		if name, ok := nameOf(h, dirs); ok && !seen[name] {
			files[name] = file{name, h.Size, h.ModTime} // of a name that is there twice the last, as tar does
		}
		return nil
	})
	for name := range files {
		seen[name] = true
	}
	return files, err
}

// nameOf is the name under which an entry is kept; ok is false for what is not. A leading ./ is cut
// off; everything else about a name must be canonical already.
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

// credentials are names under which programs keep them, should one lie among conversations.
var credentials = []string{".credentials.json", "credentials.json", "credentials", "auth.json", "oauth_creds.json", "token.json", "tokens.json", ".env", ".netrc", ".npmrc", ".pypirc"}

// isCredential errs to the safe side: a conversation that is called like a key is lost.
func isCredential(base string) bool {
	base = strings.ToLower(base)
	return slices.Contains(credentials, base) || strings.HasPrefix(base, "id_") || strings.HasSuffix(base, ".pem") || strings.HasSuffix(base, ".key")
}

// within takes away what is beyond the bounds: the oldest, as the files themselves say. A box that
// lies about that only loses its own newer ones.
func within(have []map[string]file) {
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

// copyFiles writes the chosen files of an archive, each once, with nothing but its name, content
// and time.
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
