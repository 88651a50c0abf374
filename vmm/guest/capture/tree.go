//go:build linux

package capture

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"agentbox/agentbox/git/objects"
)

// id is the name of an object.
type id = objects.ID

// entry is a file of a tree.
type entry struct {
	path string
	mode uint32
	id   id
}

// change is an entry of the work tree that HEAD does not have so, or one of mode 0 that HEAD has.
type change = entry

// commit is what HEAD names.
type commit struct {
	id, tree id
	date     string  // as in an object
	files    []entry // sorted
}

var (
	emptyBlob = sha1.Sum([]byte("blob 0\x00"))
	emptyTree = id(sha1.Sum([]byte("tree 0\x00")))
)

// parseID reads a full name of an object.
func parseID(text string) (id, error) {
	name, err := objects.ParseID(text)
	if err != nil {
		err = other(err.Error())
	}
	return name, err
}

// maxHeld bounds the contents that are held, in bytes.
const maxHeld = 64 << 20

// roomToHold is how many bytes may be held: a quarter of what the box has left of its memory, at most.
func roomToHold() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	_, after, ok := strings.Cut(string(text), "MemAvailable:")
	if f := strings.Fields(after); err == nil && ok && len(f) > 0 {
		if kib, err := strconv.ParseInt(f[0], 10, 54); err == nil {
			return min(kib<<10/4, maxHeld)
		}
	}
	return 0
}

// held has the contents of files that were read.
type held struct {
	mu   sync.Mutex
	left int64
	all  map[id][]byte
}

// take makes room for content, if there is any.
func (h *held) take(size int64) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if size > h.left {
		return nil
	}
	h.left -= size
	return make([]byte, 0, size)
}

func (h *held) put(name id, content []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[name] = content
}

// object makes an object: a file is held, as far as there is room, all else is written uncompressed, as git
// reads it once, to send it. Where nothing is sent, a file is only hashed. Of a file that changes its size
// meanwhile nothing is captured.
func (c *capture) object(kind string, size int64, content io.Reader) (id, error) {
	if kind != "blob" {
		name, err := c.write(kind, size, content)
		if err == nil {
			c.made = append(c.made, object{name: name, kind: kind})
		}
		return name, err
	}
	if c.asked("LIST") != "" {
		return sum(headOf(kind, size), size, content, io.Discard)
	}
	room := c.held.take(size)
	if room == nil {
		return c.write(kind, size, content)
	}
	to := bytes.NewBuffer(room)
	name, err := sum(headOf(kind, size), size, content, to)
	if err == nil {
		c.held.put(name, to.Bytes())
	}
	return name, err
}

// write writes an object.
func (c *capture) write(kind string, size int64, content io.Reader) (id, error) {
	f, err := os.CreateTemp(c.temp, "new-")
	if err != nil {
		return id{}, err
	}
	defer f.Close()
	packed, _ := zlib.NewWriterLevel(f, zlib.NoCompression) // the level is one
	head := headOf(kind, size)
	_, headErr := io.WriteString(packed, head)
	name, err := sum(head, size, content, packed)
	if err = errors.Join(headErr, err, packed.Close()); err != nil {
		return id{}, err
	}
	at := filepath.Join(c.temp, "objects", name.String()[:2], name.String()[2:])
	err = os.Mkdir(filepath.Dir(at), 0o700)
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	return name, errors.Join(err, os.Rename(f.Name(), at))
}

// headOf is what git's name of an object is a sum of, before the content.
func headOf(kind string, size int64) string { return fmt.Sprintf("%s %d\x00", kind, size) }

// sum returns the name of an object that begins with head, and writes its content.
func sum(head string, size int64, content io.Reader, to io.Writer) (id, error) {
	sum := sha1.New()
	_, _ = io.WriteString(sum, head)
	n, err := io.CopyBuffer(io.MultiWriter(sum, to), struct{ io.Reader }{io.LimitReader(content, size+1)}, make([]byte, min(size+1, 1<<18)))
	if err == nil && n != size {
		err = other("a file that is being written")
	}
	return id(sum.Sum(nil)), err
}

// trees makes the trees of sorted files, and writes those of the directories that write names.
func (c *capture) trees(files []entry, write map[string]bool) (id, error) {
	root, _, err := c.tree(files, "", write)
	return root, err
}

// tree makes the tree of a directory, which is "" or ends with a slash, from the files that begin with it,
// and returns how many these are.
func (c *capture) tree(files []entry, dir string, write map[string]bool) (name id, n int, err error) {
	var b bytes.Buffer
	for n < len(files) && strings.HasPrefix(files[n].path, dir) {
		e := files[n]
		base, _, within := strings.Cut(e.path[len(dir):], "/")
		count := 1
		if within {
			e.mode = 0o40000
			if e.id, count, err = c.tree(files[n:], dir+base+"/", write); err != nil {
				return name, n, err
			}
		}
		n += count
		fmt.Fprintf(&b, "%o %s\x00%s", e.mode, base, e.id[:])
	}
	if write[dir] {
		name, err = c.object("tree", int64(b.Len()), &b)
		return name, n, err
	}
	sum := sha1.New()
	fmt.Fprintf(sum, "tree %d\x00%s", b.Len(), b.Bytes())
	return id(sum.Sum(nil)), n, nil
}

// dirty are the directories with changes: HEAD has the trees of all others.
func (c *capture) dirty() map[string]bool {
	dirs := map[string]bool{"": true}
	for _, d := range c.changes {
		for dir := path.Dir(d.path); dir != "." && !dirs[dir+"/"]; dir = path.Dir(dir) {
			dirs[dir+"/"] = true
		}
	}
	return dirs
}

// commit writes a commit. Without a parent, that is zero.
func (c *capture) commit(tree, parent id, date, message string) (id, error) {
	text := "tree " + tree.String() + "\n"
	if parent != (id{}) {
		text += "parent " + parent.String() + "\n"
	}
	who := "agentbox <agentbox@localhost> " + date + "\n"
	text += "author " + who + "committer " + who + "\n" + message + "\n"
	return c.object("commit", int64(len(text)), strings.NewReader(text))
}

// readCommit reads what git log says of HEAD.
func (c *capture) readCommit(text string) (err error) {
	f := strings.Fields(text)
	if len(f) != 3 {
		return other("HEAD")
	}
	if c.head.id, err = parseID(f[0]); err == nil {
		c.head.tree, err = parseID(f[1])
	}
	c.head.date = f[2] + " +0000"
	return err
}

// readStaged reads ":OLD NEW OLDID NEWID STATUS", a zero byte and the path, for each.
func (c *capture) readStaged(text []byte) (err error) {
	c.staged, c.was = text, map[string]*entry{}
	all := fields(text)
	for i := 0; i+1 < len(all) && err == nil; i += 2 {
		f := strings.Fields(strings.TrimPrefix(all[i], ":"))
		if len(f) != 5 || f[4] == "U" {
			return other("a conflict")
		}
		mode, parseErr := strconv.ParseUint(f[0], 8, 32)
		e := &entry{path: all[i+1], mode: uint32(mode)}
		if e.id, err = parseID(f[2]); parseErr != nil {
			err = other(f[0])
		}
		if c.was[e.path] = e; mode == 0 {
			c.was[e.path] = nil
		}
	}
	return err
}
