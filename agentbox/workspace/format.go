package workspace

import (
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// The git of a box may be older than the one that made the repository, so a copy has no format that
// git 2.39 does not read. What the copy's own layout makes unnecessary is left out, refs become
// files, and what is left is refused before there is a box in which every git fails.

// extensions has git's extensions of the repository format (gitrepository-layout(5), git-config(1)
// of git 2.55) and whether a copy keeps them.
var extensions = map[string]bool{
	"objectformat": true, "partialclone": true, "worktreeconfig": true,
	"noop": false, "noop-v1": false,
	"preciousobjects":     false, // nothing borrows from a copy
	"relativeworktrees":   false, // a copy has no linked work trees
	"submodulepathconfig": false, // the .git files of submodules say where their git directories are
	"compatobjectformat":  false, // only translates names of objects
	"refstorage":          false, // see refFiles
}

func extensionOf(s git.Setting) (name string, ok bool) {
	return strings.CutPrefix(s.Key, "extensions.")
}

// checkFormat fails if a copy cannot do without an extension that git 2.39 does not know. git
// ignores unknown extensions in version 0 of the format.
func checkFormat(repo Repo, local []git.Setting) error {
	if version := settingValue(local, "core.repositoryformatversion"); version == "" || version == "0" {
		return nil
	}
	refused := func(s git.Setting) error {
		return agentbox.Errorf(agentbox.Invalid, "the repository at %s has a format that the git in a box may not read: %s = %s", repo.Root, s.Key, s.Value).
			WithHint("use a clone of it, which has git's usual format: git clone %s DIRECTORY", repo.Root)
	}
	for _, s := range local {
		name, ok := extensionOf(s)
		if _, known := extensions[name]; ok && !known {
			return refused(s)
		}
		if name == "refstorage" && ok && s.Value != "files" && s.Value != "reftable" || name == "objectformat" && ok && s.Value != "sha1" && s.Value != "sha256" {
			return refused(s)
		}
	}
	return nil
}

func hasReftables(local []git.Setting) bool {
	return settingValue(local, "extensions.refstorage") == "reftable"
}

// validRef matches refs that may become files below a git directory; see also ValidName.
var validRef = agentbox.Pattern(`^refs(/[^/\x00-\x20\x7f~^:?*\[\\]+)+$`)

func isValidRef(name string) bool {
	return name == "HEAD" || pseudoRef().MatchString(name) || validRef().MatchString(name) && ValidName(name) && !strings.HasSuffix(name, ".lock") && !strings.Contains(name, "..")
}

// refFiles writes the refs and reflogs that a work tree sees from reftables into files below dst,
// with their symbolic refs, HEAD among them.
func (s *stager) refFiles(repo Repo, dst string) error {
	refs, err := readReftables(repo)
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "cannot read the refs of the repository at %s: %w", repo.Root, err).WithHint("git fsck in it says what is damaged")
	}
	packed := &strings.Builder{}
	packed.WriteString("# pack-refs with: sorted \n")
	for _, name := range slices.Sorted(maps.Keys(refs.Objects)) {
		switch {
		case !isValidRef(name):
			s.note("%q is left out: no ref can be called that", name)
		case strings.HasPrefix(name, "refs/"):
			fmt.Fprintf(packed, "%s %s\n", refs.Objects[name], name)
		default:
			err = errors.Join(err, writeBelow(dst, name, refs.Objects[name]+"\n"))
		}
	}
	for name, to := range refs.Symbolic {
		if isValidRef(name) && isValidRef(to) {
			err = errors.Join(err, writeBelow(dst, name, "ref: "+to+"\n"))
		}
	}
	for name, lines := range refs.Logs {
		if isValidRef(name) {
			err = errors.Join(err, writeBelow(dst, "logs/"+name, redact(strings.Join(lines, ""))))
		}
	}
	return errors.Join(err, writeText(filepath.Join(dst, "packed-refs"), packed.String()))
}

// readReftables reads the refs that one work tree sees: those that all share, and its own.
func readReftables(repo Repo) (git.Refs, error) {
	refs, err := git.ReadReftables(filepath.Join(repo.CommonDir, "reftable"))
	if err != nil || repo.GitDir == repo.CommonDir {
		return refs, err
	}
	own, err := git.ReadReftables(filepath.Join(repo.GitDir, "reftable"))
	if err != nil {
		return refs, err
	}
	replacePrivate(refs.Objects, own.Objects)
	replacePrivate(refs.Symbolic, own.Symbolic)
	replacePrivate(refs.Logs, own.Logs)
	return refs, nil
}

// replacePrivate replaces what belongs to the main work tree alone.
func replacePrivate[T any](shared, own map[string]T) {
	maps.DeleteFunc(shared, func(name string, _ T) bool { return !strings.HasPrefix(name, "refs/") || isPrivate(name) })
	maps.Copy(shared, own)
}

// writeBelow writes a file of a copy's git directory with the directories above it. name is a valid
// ref, perhaps below logs.
func writeBelow(dst, name, text string) error {
	if err := os.MkdirAll(filepath.Join(dst, path.Dir(name)), 0o755); err != nil {
		return unwritable(dst, err)
	}
	return writeText(filepath.Join(dst, filepath.FromSlash(name)), text)
}

// completeIndex adds the hash at the end of an index that was written without one (index.skipHash,
// git 2.40): earlier ones take it for damaged. The index of a copy is a file of its own. Its time
// decides which of its entries git looks at again, and stays.
func completeIndex(file string, local []git.Setting) error {
	sum, size := hash.Hash(sha1.New()), int64(sha1.Size)
	if settingValue(local, "extensions.objectformat") == "sha256" {
		sum, size = sha256.New(), sha256.Size
	}
	f, err := os.Open(file)
	if gone(err) {
		return nil
	}
	if err != nil {
		return unreadable(file, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Size() < size {
		return unreadable(file, err)
	}
	end := make([]byte, size)
	if _, err := f.ReadAt(end, fi.Size()-size); err != nil || slices.ContainsFunc(end, func(b byte) bool { return b != 0 }) {
		return unreadable(file, err)
	}
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, fi.Size()-size)); err != nil {
		return unreadable(file, err)
	}
	return unwritable(file, writeEnd(file, sum.Sum(nil), fi))
}

// writeEnd replaces the last bytes of a file, which may be read-only, as those of a checkout that
// nobody may write to are. It leaves the mode and the time as they were.
func writeEnd(file string, b []byte, fi fs.FileInfo) error {
	if err := os.Chmod(file, fi.Mode().Perm()|0o200); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, fi.Size()-int64(len(b)))
	return errors.Join(err, f.Close(), os.Chmod(file, fi.Mode().Perm()), os.Chtimes(file, fi.ModTime(), fi.ModTime()))
}
