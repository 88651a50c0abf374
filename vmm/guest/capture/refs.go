//go:build linux

package capture

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// named is a ref.
type named struct {
	object, ref string
	commit      string // the object, or what it is a tag of, if that is a commit; else ""
}

// readRefs reads what git for-each-ref says: the type and name of an object, those of what it is a tag of,
// or nothing, and the ref.
func (c *run) readRefs(text string) error {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(f) != 5 {
			return other("a ref")
		}
		n := named{object: f[1], ref: f[4]}
		if f[0] == "commit" {
			n.commit = f[1]
		} else if f[2] == "commit" {
			n.commit = f[3]
		}
		c.named = append(c.named, n)
	}
	return nil
}

// detached and what of a reflog names what was left on no branch; stashed what was put aside.
func (c *run) logged(name string, take func(before, after, what string) (id, ref string)) (lines []string, err error) {
	text, err := os.ReadFile(filepath.Join(c.git, "logs", name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		head, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if f := strings.Fields(head); len(f) > 2 {
			if name, ref := take(f[0], f[1], what); ref != "" {
				lines = append(lines, name+" "+ref)
			}
		}
	}
	return lines, err
}

// found lists "ID NAME" of each commit that something names: branches and tags, stashes, what HEAD was
// when it was on no branch.
func (c *run) found() ([]string, error) {
	var lines []string
	for _, n := range c.named {
		if n.commit != "" && !strings.HasPrefix(n.ref, "refs/remotes/") && !strings.HasPrefix(n.ref, "refs/agentbox/") {
			lines = append(lines, n.commit+" "+n.ref)
		}
	}
	isID := func(text string) bool { _, err := parseID(text); return err == nil && strings.ToLower(text) == text }
	stashes, err := c.logged("refs/stash", func(_, after, _ string) (string, string) {
		return after, map[bool]string{true: "refs/stash"}[isID(after)]
	})
	left, headErr := c.logged("HEAD", func(_, _, what string) (string, string) {
		from, _, ok := strings.Cut(strings.TrimPrefix(what, "checkout: moving from "), " to ")
		return from, map[bool]string{true: "detached"}[ok && strings.HasPrefix(what, "checkout: moving from ") && isID(from)]
	})
	if !slices.ContainsFunc(c.named, func(n named) bool { return n.ref == "refs/stash" }) {
		stashes = nil
	}
	lines = slices.Concat(lines, stashes, left)
	if c.ref == "HEAD" {
		lines = append(lines, c.head.id.String()+" HEAD")
	}
	slices.Sort(lines)
	return slices.Compact(lines), errors.Join(err, headErr)
}

// refs writes the refs whose commits the workspace's own commit does not have.
func (c *run) refs(out *bytes.Buffer, top id) error {
	lines, err := c.found()
	if err != nil {
		return other(err.Error())
	}
	var tips bytes.Buffer
	for _, line := range lines {
		name, _, _ := strings.Cut(line, " ")
		if name != c.head.id.String() {
			fmt.Fprintln(&tips, name)
		}
	}
	own := map[string]bool{}
	if tips.Len() > 0 {
		in := tips.String() + "^" + top.String() + "\n"
		ids, err := c.run(strings.NewReader(in), "rev-list", "--ignore-missing", "--stdin")
		if err != nil {
			return other(err.Error())
		}
		for _, name := range strings.Fields(string(ids)) {
			own[name] = true
		}
	}
	if c.asked("LIST") != "" {
		if err := c.titles(out, lines, len(own) > 0); err != nil {
			return err
		}
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return !own[line[:len(c.head.id.String())]] })
	if len(lines) > c.most("MOST", 1000) {
		return other("many branches")
	}
	for _, line := range lines {
		fmt.Fprintf(out, "ref %s .\n", line)
	}
	return nil
}

// titles writes the newest commits, and all that something names.
func (c *run) titles(out *bytes.Buffer, lines []string, own bool) error {
	base := c.asked("BASE")
	out.WriteString("repository .\n")
	if !own && base == c.head.id.String() {
		return nil
	}
	var tips bytes.Buffer
	for _, line := range lines {
		fmt.Fprintln(&tips, line[:len(c.head.id.String())])
	}
	ends := tips.String() + c.head.id.String() + "\n"
	if base != "" {
		ends += "^" + base + "\n"
	}
	list := func(in string, args ...string) error {
		text, err := c.run(strings.NewReader(in), append([]string{"log", "--format=commit %H %s", "--ignore-missing", "--stdin"}, args...)...)
		if err != nil {
			return other(err.Error())
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			out.WriteString(line[:min(len(line), 1000)] + "\n")
		}
		return nil
	}
	err := list(ends, "--max-count="+strconv.Itoa(c.most("NEWEST", 1000)))
	if own && err == nil {
		err = list(tips.String(), "--no-walk")
	}
	return err
}
