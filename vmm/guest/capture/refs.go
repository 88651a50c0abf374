//go:build linux

package capture

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// named is a ref.
type named struct {
	object, ref string
	commit      string // the object, or what it is a tag of, if that is a commit; else ""
	tag         bool   // it is annotated
}

// readRefs reads what git for-each-ref says: the type and name of an object, those of what it is a tag of,
// or nothing, and the ref. Commits that only reflogs name are left to the script: stashes, and those that
// were left on no branch.
func (c *capture) readRefs(text string) error {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(f) != 5 || f[4] == "refs/stash" {
			return other("the ref " + line)
		}
		n := named{object: f[1], ref: f[4], tag: f[0] == "tag" && strings.HasPrefix(f[4], "refs/tags/")}
		if f[0] == "commit" {
			n.commit = f[1]
		} else if f[2] == "commit" {
			n.commit = f[3]
		}
		c.named = append(c.named, n)
	}
	log, err := os.ReadFile(filepath.Join(c.git, "logs", "HEAD"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return other(err.Error())
	}
	for line := range strings.Lines(string(log)) {
		_, from, _ := strings.Cut(line, "\tcheckout: moving from ")
		from, _, _ = strings.Cut(from, " ")
		if _, err := parseID(from); err == nil {
			return other("what was left on no branch")
		}
		if from != "" {
			c.before = from + "\n"
		}
	}
	return nil
}

// refs writes the refs whose commits the workspace's own commit does not have.
func (c *capture) refs(out *bytes.Buffer, top id) error {
	var lines []string
	head, tips := c.head.id.String(), ""
	for _, n := range c.named {
		if n.commit != "" && n.commit != head && !strings.HasPrefix(n.ref, "refs/remotes/") && !strings.HasPrefix(n.ref, "refs/agentbox/") {
			lines, tips = append(lines, n.commit+" "+n.ref), tips+n.commit+"\n"
		}
	}
	if c.asked("LIST") != "" {
		if len(lines) > 0 || c.asked("BASE") != head {
			return other("titles of commits")
		}
		out.WriteString("repository .\n")
	}
	if len(lines) == 0 {
		return nil
	}
	ids, err := c.run(strings.NewReader(tips+"^"+top.String()+"\n"), "rev-list", "--ignore-missing", "--stdin")
	if err != nil {
		return other(err.Error())
	}
	own := map[string]bool{}
	for _, name := range strings.Fields(string(ids)) {
		own[name] = true
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return !own[line[:len(head)]] })
	if len(lines) > c.number("MOST", 1000) {
		return other("many branches")
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintf(out, "ref %s .\n", line)
	}
	return nil
}
