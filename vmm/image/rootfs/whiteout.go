package rootfs

import (
	"path"
	"strings"

	"agentbox/agentbox"
)

// Names by which a layer removes what lower layers left. They are the OCI image specification's
// ("Image Layer Filesystem Changeset").
const (
	whiteoutPrefix = ".wh."
	opaqueMarker   = ".wh..wh..opq"
	reservedPrefix = ".wh..wh."
)

// whiteout handles a marker, and tells whether name, as the archive has it, is one. A marker hides
// lower layers only: a file that the same layer puts under that name stays, in whichever order the
// archive has the two.
func (t *Tree) whiteout(name string) (bool, error) {
	name = strings.TrimRight(name, "/")
	dir, base := path.Split(name)
	switch {
	case base == opaqueMarker:
		return true, t.opaque(dir)
	case strings.HasPrefix(base, reservedPrefix):
		return true, nil // bookkeeping of the union file system that made the layer
	case strings.HasPrefix(base, whiteoutPrefix):
		hidden := strings.TrimPrefix(base, whiteoutPrefix)
		if hidden == "" || hidden == "." || hidden == ".." {
			return true, agentbox.Errorf(agentbox.Corrupt, "layer has the whiteout %.80q, which names nothing", name)
		}
		return true, t.hide(dir + hidden)
	}
	return false, nil
}

// opaque removes everything that lower layers have in a directory.
func (t *Tree) opaque(dir string) error {
	if _, err := split(dir); err != nil {
		return err
	}
	e, err := t.walk(dir, false)
	if err != nil || e == nil || !e.IsDir() {
		return err
	}
	t.prune(e)
	return nil
}

func (t *Tree) hide(name string) error {
	parent, base, err := t.parent(name, false)
	if err != nil || parent == nil || base == "" {
		return err
	}
	t.pruneName(parent, base)
	return nil
}

// prune removes everything from a directory that this layer has not touched.
func (t *Tree) prune(dir *entry) {
	for name := range dir.entries {
		t.pruneName(dir, name)
	}
}

// pruneName removes a name if only lower layers have it. A directory that this layer has touched
// keeps what this layer put there.
func (t *Tree) pruneName(dir *entry, name string) {
	e := dir.entries[name]
	switch {
	case e == nil:
	case e.touched < t.layer:
		delete(dir.entries, name)
	case e.IsDir():
		t.prune(e)
	}
}
