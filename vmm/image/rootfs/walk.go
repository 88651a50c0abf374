package rootfs

import (
	"strings"

	"agentbox/agentbox"
)

// pathStep is a directory on the way from the root, and the length of its path in bytes.
type pathStep struct {
	*entry
	length int
}

// walk follows a path and all its symlinks from the root. No link can leave the tree: as in a
// chroot, the root's parent is the root. With create, walk makes missing directories and marks
// everything on the way as touched by this layer; without, a missing name is nil.
func (t *Tree) walk(name string, create bool) (*entry, error) {
	stack := []pathStep{{t.root, 0}}
	rest := strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		here := stack[len(stack)-1]
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			stack = stack[:max(1, len(stack)-1)]
			continue
		}
		next, err := t.step(here, part, name, create)
		if err != nil || next == nil {
			return nil, err
		}
		if next.Type() != TypeSymlink {
			stack = append(stack, pathStep{next, here.length + 1 + len(part)})
			continue
		}
		// Each link can lead to a path of further links.
		if links++; links > maxLinks || len(rest) > maxPath {
			return nil, agentbox.Errorf(agentbox.Corrupt, "layer has too many symlinks on the way to %.80q", name)
		}
		// An absolute target begins at the tree's root, never at the host's.
		if strings.HasPrefix(next.Target, "/") {
			stack = stack[:1]
		}
		rest = append(strings.Split(next.Target, "/"), rest...)
	}
	return stack[len(stack)-1].entry, nil
}

// step goes from one directory to a name in it, see walk. name is the whole path, for errors.
func (t *Tree) step(here pathStep, part, name string, create bool) (*entry, error) {
	if !here.IsDir() {
		if create {
			return nil, agentbox.Errorf(agentbox.Corrupt, "layer has %.80q below something that is not a directory", name)
		}
		return nil, nil
	}
	next := here.entries[part]
	if next == nil && create {
		// Otherwise a layer could use symlinks to build paths that no program can name, and that
		// take quadratic memory.
		if len(part) > maxName || here.length+len(part) > maxPath-maxName-2 {
			return nil, agentbox.Errorf(agentbox.Corrupt, "layer has an impossibly long path at %.80q", name)
		}
		dir := newDir(0o755, t.epoch)
		if err := t.account(part, dir); err != nil {
			return nil, err
		}
		next = &entry{Inode: dir}
		here.entries[part] = next
	}
	if next != nil && create {
		next.touched = t.layer
	}
	return next, nil
}
