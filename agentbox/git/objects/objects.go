// Package objects reads and writes objects of a git repository without git, as gitformat-pack(5) says: a
// process of git costs 3 ms, and ten times that in a box, and a pipe copies what is read from one. It knows
// SHA-1 only, changes nothing that is there, and checks nothing but that bytes have the form and the sum that
// they must have: what an object says is for git to check. Whatever it cannot read is an error, after which
// git can be asked.
//
// Objects may be anybody's: sizes are bounded before anything is allocated, and each sum is looked at for the
// known attacks on SHA-1, as git does it (github.com/pjbgf/sha1cd).
package objects

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pjbgf/sha1cd"
)

// ID is the name of an object.
type ID [sha1.Size]byte

func (i ID) String() string { return hex.EncodeToString(i[:]) }

// ParseID reads a full name of an object.
func ParseID(text string) (id ID, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%.50q is no name of an object", text)
	}
	return ID(b), nil
}

// Kind is the kind of an object, by its number in a pack.
type Kind byte

const (
	Commit Kind = 1 + iota
	Tree
	Blob
	Tag
	_
	offsetDelta
	nameDelta // of an object whose name follows
)

var kindNames = []string{Commit: "commit", Tree: "tree", Blob: "blob", Tag: "tag"}

func (k Kind) String() string {
	if k >= Commit && k <= Tag {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", k)
}

// Object is an object and what it is.
type Object struct {
	Kind    Kind
	Content []byte
}

// ID computes the name of an object. It fails for one that was made to have that of another.
func (o Object) ID() (ID, error) {
	sum := sha1cd.New().(sha1cd.CollisionResistantHash)
	fmt.Fprintf(sum, "%s %d\x00", o.Kind, len(o.Content))
	_, _ = sum.Write(o.Content)
	b, attacked := sum.CollisionResistantSum(nil)
	if attacked {
		return ID{}, errors.New("an object that was made to have the name of another")
	}
	return ID(b), nil
}

// errLarge is why something is not read.
var errLarge = errors.New("an object is larger than is read of one")

// Store reads directories of objects. It sees the packs that are there when it is opened, and follows no
// alternates. Methods may be called at once.
type Store struct {
	dirs  []string
	packs []*pack
}

// Open opens directories of objects: .git/objects, say.
func Open(dirs ...string) (s *Store, err error) {
	s = &Store{dirs: dirs}
	for _, dir := range dirs {
		names, globErr := filepath.Glob(filepath.Join(dir, "pack", "pack-*.idx"))
		err = globErr
		for _, name := range names {
			var p *pack
			if err == nil {
				p, err = openPack(strings.TrimSuffix(name, ".idx"))
			}
			if p != nil {
				s.packs = append(s.packs, p)
			}
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close closes the packs.
func (s *Store) Close() (err error) {
	for _, p := range s.packs {
		err = errors.Join(err, p.close())
	}
	return err
}

// Read returns an object of at most most bytes; fs.ErrNotExist if it is not there. Its sum is not checked.
func (s *Store) Read(id ID, most int64) (Object, error) { return s.read(id, most, 0) }

func (s *Store) read(id ID, most int64, depth int) (Object, error) {
	for _, p := range s.packs {
		at, ok, err := p.find(id)
		if err != nil {
			return Object{}, err
		}
		if ok {
			return s.packed(p, at, most, depth)
		}
	}
	for _, dir := range s.dirs {
		o, err := readLoose(looseFile(dir, id), most)
		if !errors.Is(err, fs.ErrNotExist) {
			return o, err
		}
	}
	return Object{}, fmt.Errorf("object %s: %w", id, fs.ErrNotExist)
}

func looseFile(dir string, id ID) string {
	name := id.String()
	return filepath.Join(dir, name[:2], name[2:])
}

// readLoose reads an object that is a file of its own.
func readLoose(file string, most int64) (o Object, err error) {
	f, err := os.Open(file)
	if err != nil {
		return o, err
	}
	defer f.Close()
	z, err := zlib.NewReader(bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return o, err
	}
	in := bufio.NewReaderSize(z, 64)
	head, err := in.ReadSlice(0)
	if err != nil {
		return o, fmt.Errorf("%s begins with no kind: %w", file, err)
	}
	kind, size, _ := strings.Cut(string(head[:len(head)-1]), " ")
	for k := Commit; k <= Tag; k++ {
		if kindNames[k] == kind {
			o.Kind = k
		}
	}
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || o.Kind == 0 || n < 0 {
		return o, fmt.Errorf("%s begins with %.50q", file, head)
	}
	o.Content, err = readAll(in, n, most)
	return o, err
}

// readAll reads exactly so many bytes to the end of r.
func readAll(r io.Reader, size, most int64) ([]byte, error) {
	if size > most {
		return nil, errLarge
	}
	content := make([]byte, size)
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, err
	}
	if n, err := io.CopyN(io.Discard, r, 1); n > 0 || err != io.EOF {
		return nil, fmt.Errorf("an object has more than %d bytes, or a wrong sum: %v", size, err)
	}
	return content, nil
}

// WriteLoose writes an object into a directory of objects, uncompressed, and returns its name. With synced it
// is on disk then. Nobody else may write there.
func WriteLoose(dir string, o Object, synced bool) (id ID, err error) {
	if id, err = o.ID(); err != nil {
		return id, err
	}
	file := looseFile(dir, id)
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return id, err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if errors.Is(err, fs.ErrExist) { // the same
		return id, nil
	}
	if err != nil {
		return id, err
	}
	out := bufio.NewWriterSize(f, 1<<18)
	z, _ := zlib.NewWriterLevel(out, zlib.NoCompression) // the level is one
	_, err = fmt.Fprintf(z, "%s %d\x00", o.Kind, len(o.Content))
	if err == nil {
		_, err = io.Copy(z, bytes.NewReader(o.Content))
	}
	err = errors.Join(err, z.Close(), out.Flush())
	if err == nil && synced {
		err = f.Sync()
	}
	return id, errors.Join(err, f.Close())
}

// MoveLoose moves objects that WriteLoose wrote from one directory into another one of the same file system.
func MoveLoose(from, to string) error {
	names, err := filepath.Glob(filepath.Join(from, "??", "*"))
	for _, name := range names {
		dir := filepath.Join(to, filepath.Base(filepath.Dir(name)))
		if mkErr := os.Mkdir(dir, 0o755); mkErr != nil && !errors.Is(mkErr, fs.ErrExist) {
			return mkErr
		}
		err = errors.Join(err, os.Rename(name, filepath.Join(dir, filepath.Base(name))))
	}
	return err
}
