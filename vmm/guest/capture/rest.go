//go:build linux

package capture

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// compareHead finds how the work tree differs from HEAD, whose files are those of the index but for what
// is staged. That these are all, git's own name of its tree proves.
func (c *capture) compareHead() error {
	var head []entry
	for _, e := range c.index.Entries {
		if _, staged := c.was[e.Path]; !staged {
			head = append(head, entry{e.Path, e.Mode, e.ID})
		}
	}
	for _, e := range c.was {
		if e != nil {
			head = append(head, *e)
		}
	}
	slices.SortFunc(head, func(x, y entry) int { return strings.Compare(x.path, y.path) })
	if tree, err := c.trees(head, nil); err != nil || tree != c.head.tree {
		return other("the tree of HEAD")
	}
	now := c.now
	c.head.files = head
	for len(head)+len(now) > 0 {
		switch {
		case len(head) == 0 || len(now) > 0 && now[0].path < head[0].path:
			c.changed(now[0], id{})
			now = now[1:]
		case len(now) == 0 || head[0].path < now[0].path:
			c.changes, head = append(c.changes, change{path: head[0].path}), head[1:]
		default:
			if head[0] != now[0] {
				c.changed(now[0], head[0].id)
			}
			head, now = head[1:], now[1:]
		}
	}
	return nil
}

// changed records a file that HEAD does not have so, but another object or none, in its place.
func (c *capture) changed(now entry, was id) {
	c.changes = append(c.changes, now)
	c.made = append(c.made, object{now.id, was, "blob"})
}

// maxTimes bounds the names of files with times, in bytes: the script asks git for more of them in parts,
// whose order is another.
const maxTimes = 64 << 10

// rest writes what restores the workspace exactly, and its commit (captureRest in agentbox/snapshot).
func (c *capture) rest(out *bytes.Buffer) error {
	if c.asked("ARTIFACTS") != "" {
		return other("artifacts")
	}
	times, err := c.times()
	if err != nil {
		return err
	}
	var refs bytes.Buffer
	for _, n := range c.named {
		if strings.HasPrefix(n.ref, "refs/heads/") || strings.HasPrefix(n.ref, "refs/tags/") || strings.HasPrefix(n.ref, "refs/bisect/") || n.ref == "refs/stash" {
			fmt.Fprintf(&refs, "%s %s\n", n.object, n.ref)
		}
	}
	modes := c.modes()
	if len(c.staged)+len(modes)+len(times)+refs.Len() == 0 {
		return nil
	}
	tags, err := c.tags()
	if err != nil {
		return err
	}
	nothing, err := c.trees(nil, map[string]bool{"": true})
	if err != nil {
		return err
	}
	objects, err := c.stagedObjects()
	if err != nil {
		return err
	}
	tree := []entry{{"ignored", 0o40000, nothing}, {"objects", 0o40000, objects}, {"state", 0o40000, nothing}}
	for name, text := range map[string][]byte{"before": []byte(c.before), "flags": nil, "modes": modes, "refs": refs.Bytes(), "staged": c.staged, "tags": tags, "times": times, "unmerged": nil} {
		blob, err := c.object("blob", int64(len(text)), bytes.NewReader(text))
		if err != nil {
			return other(err.Error())
		}
		c.made = append(c.made, object{name: blob, kind: "blob"})
		tree = append(tree, entry{name, 0o100644, blob})
	}
	slices.SortFunc(tree, func(x, y entry) int { return strings.Compare(x.path, y.path) })
	top, err := c.trees(tree, map[string]bool{"": true})
	if err == nil {
		top, err = c.commit(top, id{}, "0 +0000", "rest")
	}
	fmt.Fprintf(out, "rest %s\n", top)
	return err
}

// tags are the annotated ones, as git cat-file --batch prints them.
func (c *capture) tags() ([]byte, error) {
	var ids []string
	for _, n := range c.named {
		if n.tag {
			ids = append(ids, n.object+"\n")
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	text, err := c.run(strings.NewReader(strings.Join(slices.Compact(ids), "")), "cat-file", "--batch")
	if err != nil {
		return nil, other(err.Error())
	}
	return text, nil
}

// times are those of files that differ from HEAD, or are staged, in the form of git ls-files --debug -z.
func (c *capture) times() ([]byte, error) {
	listed := func(path string) bool {
		_, changed := slices.BinarySearchFunc(c.changes, path, func(d change, path string) int { return strings.Compare(d.path, path) })
		return changed
	}
	var out bytes.Buffer
	size := 0
	for _, e := range c.now {
		_, staged := c.was[e.path]
		if !staged && !listed(e.path) {
			continue
		}
		size += len(e.path) + 1
		f := c.files[e.path]
		fmt.Fprintf(&out, "%s\x00  mtime: %d:%d\n", e.path, uint32(f.Mtim.Sec), f.Mtim.Nsec)
	}
	for path := range c.was {
		size += len(path) + 1
		if at, _ := slices.BinarySearchFunc(c.now, path+"/", func(e entry, path string) int { return strings.Compare(e.path, path) }); at < len(c.now) && strings.HasPrefix(c.now[at].path, path+"/") {
			return nil, other("a directory in place of a file that is staged")
		}
	}
	if size > maxTimes {
		return nil, other("many changes")
	}
	return out.Bytes(), nil
}

// keptModes are those that the script keeps, beside the two that git has.
var keptModes = []uint32{0o400, 0o440, 0o444, 0o500, 0o550, 0o555, 0o600, 0o640, 0o660, 0o664, 0o666, 0o700, 0o740, 0o744, 0o750, 0o754, 0o770, 0o775, 0o777, 0o711}

// modes are "MODE ./PATH" and a zero byte, sorted.
func (c *capture) modes() []byte {
	var lines []string
	for path, f := range c.files {
		if mode := f.Mode & 0o7777; f.Mode&syscall.S_IFMT == syscall.S_IFREG && slices.Contains(keptModes, mode) {
			lines = append(lines, fmt.Sprintf("%o ./%s\x00", mode, path))
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, ""))
}

// stagedObjects makes a tree of the blobs that are staged, as far as they are there.
func (c *capture) stagedObjects() (id, error) {
	var ids bytes.Buffer
	all := fields(c.staged)
	for i := 0; i+1 < len(all); i += 2 {
		if f := strings.Fields(all[i]); strings.HasPrefix(f[1], "10") || strings.HasPrefix(f[1], "12") {
			fmt.Fprintln(&ids, f[3])
		}
	}
	if ids.Len() == 0 {
		return emptyTree, nil
	}
	there, err := c.run(&ids, "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return id{}, other(err.Error())
	}
	var tree []entry
	for line := range strings.Lines(string(there)) {
		if name, ok := strings.CutSuffix(line, " blob\n"); ok {
			blob, err := parseID(name)
			if err != nil {
				return id{}, err
			}
			tree = append(tree, entry{name, 0o100644, blob})
		}
	}
	slices.SortFunc(tree, func(x, y entry) int { return strings.Compare(x.path, y.path) })
	return c.trees(slices.Compact(tree), map[string]bool{"": true})
}
