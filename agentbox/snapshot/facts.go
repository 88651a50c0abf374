package snapshot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
)

// facts are what a box says of its workspace before the pack. They are the box's word: check has
// looked at the form of ids and numbers, and nothing says that they are true. head is "" before the
// first commit; top is head, or the commit of what was uncommitted.
type facts struct {
	format    string // of its objects
	head, top string
	files     int
	also      []Branch
	missing   []string
	nested    []string // repositories in the workspace
	failed    string   // why git there could not tell; nothing else counts then
}

// Branch is a commit that HEAD does not lead to, and what the box calls it. Name is printable, and
// without refs/heads/ for a branch.
type Branch struct {
	Name   string
	Commit string
	Ref    string // in the mirror
}

// The box's word is bounded.
const (
	// In this order: lines, bytes of one, things that could not be kept, branches with stashes.
	maxFacts   = 2000
	maxFact    = 4 << 10
	maxMissing = 100
	maxAlso    = 1000
)

// readFacts reads the lines up to "pack". The reader stands at the first byte of the pack then. The
// lines are those of capture. A box that failed may end without a pack.
func readFacts(r *bufio.Reader) (facts, error) {
	var f facts
	for range maxFacts {
		b, err := bounded.ReadLine(r, maxFact)
		if err != nil {
			if f.failed != "" && errors.Is(err, io.EOF) {
				return f, nil
			}
			return f, err
		}
		what, value, _ := strings.Cut(string(b), " ")
		if what == "pack" {
			return f, f.check()
		}
		f.take(what, value)
	}
	return f, errors.New("it says too much")
}

// take notes one line; of a kind that is not known it makes nothing.
func (f *facts) take(what, value string) {
	switch what {
	case "format":
		f.format = value
	case "head":
		f.head = value
	case "top":
		f.top = value
	// What is no number is 0: it is for people only.
	case "files":
		f.files, _ = strconv.Atoi(strings.TrimSpace(value))
	case "also":
		id, name, _ := strings.Cut(value, " ")
		f.also = append(f.also, Branch{Name: agentbox.Printable(strings.TrimPrefix(name, "refs/heads/")), Commit: id})
	case "missing":
		if len(f.missing) < maxMissing {
			f.missing = append(f.missing, agentbox.Printable(value))
		}
	case "nested":
		if len(f.nested) < maxMissing {
			f.nested = append(f.nested, agentbox.Printable(value))
		}
	case "failed":
		f.failed = agentbox.Printable(value)
		if f.failed == "" {
			f.failed = "git in the box fails"
		}
	}
}

// check looks whether the names of objects are such, and of the format that is said.
func (f *facts) check() error {
	digits := map[string]int{"sha1": 40, "sha256": 64}[f.format]
	ids := []string{f.top}
	if f.head != "" {
		ids = append(ids, f.head)
	}
	for _, b := range f.also {
		ids = append(ids, b.Commit)
	}
	for _, id := range ids {
		if !isObject(id, digits) {
			return fmt.Errorf("%.80q is not a commit", id)
		}
	}
	if f.files < 0 || len(f.also) > maxAlso {
		return errors.New("it counts wrong")
	}
	return nil
}

// isObject tells whether id is the full name of an object where names have so many hex digits.
func isObject(id string, digits int) bool {
	return digits > 0 && len(id) == digits && strings.Trim(id, "0123456789abcdef") == ""
}

// lies is the error of a box whose answer is none.
func lies(err error) error {
	return agentbox.Errorf(agentbox.Conflict, "the box cannot tell what its workspace holds: %w", err)
}
