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

// facts are what a box reports about its workspace before the pack. They are untrusted: check
// validates the form of ids and numbers, not their truth. head is "" before the first commit.
// top is head, or the commit of uncommitted work on top of it.
type facts struct {
	format    string // of its objects: sha1 or sha256
	head, top string
	files     int
	also      []Branch
	missing   []string
	nested    []string // nested repositories in the workspace
	failed    string   // why git in the box failed; the other fields do not count then
}

// Branch is a commit that HEAD does not contain, with its name in the box. Name is printable,
// and has no refs/heads/ prefix for a branch.
type Branch struct {
	Name   string
	Commit string
	Ref    string // in the mirror
}

// Bounds on what a box may report.
const (
	// In order: lines, bytes per line, reports of missing things, branches and stashes.
	maxFacts   = 2000
	maxFact    = 4 << 10
	maxMissing = 100
	maxAlso    = 1000
)

// readFacts reads lines up to "pack" and leaves the reader at the first byte of the pack. For
// the lines see capture. A box that reported "failed" may end without a pack.
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
	return f, errors.New("it is too long")
}

// take records one line and ignores lines of unknown kinds.
func (f *facts) take(what, value string) {
	switch what {
	case "format":
		f.format = value
	case "head":
		f.head = value
	case "top":
		f.top = value
	// A malformed number becomes 0: it is only shown to people.
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

// check verifies that all object names match the reported format.
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

// isObject reports whether id is a full object name with that many hex digits.
func isObject(id string, digits int) bool {
	return digits > 0 && len(id) == digits && strings.Trim(id, "0123456789abcdef") == ""
}

// invalidAnswerError returns the error for a box whose answer is invalid.
func invalidAnswerError(err error) error {
	return agentbox.Errorf(agentbox.Conflict, "the box cannot tell what its workspace holds: %w", err)
}
