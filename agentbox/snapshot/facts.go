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
	"agentbox/agentbox/workspace"
)

// facts are what a box reports about its repositories before the pack. They are untrusted: check
// validates the form of ids and numbers, not their truth.
type facts struct {
	format  string // of the objects: sha1 or sha256
	trees   []tree // the first is the workspace itself
	refs    []Branch
	commits []commit
	missing []string
	raw     []string
	stays   map[string]string // by the path of a repository, why its objects cannot be sent
	at      string            // the repository whose commits follow
	files   string            // the tree of all files of the workspace
	rest    string            // the commit with what else restores the workspace; "" for none
	failed  string            // why git in the box failed; the other fields do not count then

	own []Branch // those trees and refs that the host lacks (findOwn)
}

// tree is a work tree. top is head, or the commit of what is uncommitted on top of it; head is ""
// before the first commit.
type tree struct {
	path, ref string
	head, top string
	files     int      // that are uncommitted
	changed   []string // "MODE BLOB PATH" of the first of them, for workspace.Differing; not all if there are more files
}

// commit is one commit of the repository at path.
type commit struct {
	workspace.Commit
	path string
}

// Branch is a commit of a box that the commit of the workspace does not contain: of a branch, a
// stash, another work tree, or another repository in the workspace. Its Ref is "" if it could not be
// kept.
type Branch struct {
	agentbox.OtherWork
	path, ref string // as the box wrote them; path is "." for a ref of the workspace's own repository
	tree      *tree  // nil for a ref
}

func branch(commit, ref, path string) Branch {
	b := Branch{OtherWork: agentbox.OtherWork{Name: strings.TrimPrefix(agentbox.Printable(ref), "refs/heads/"), Commit: commit}, path: path, ref: ref}
	if path != "." {
		b.Path = agentbox.Printable(path)
	}
	return b
}

// Bounds on what a box may report: all bytes, the bytes of one line, reports of missing things, and
// the refs of a repository and the repositories.
const (
	maxFacts   = 64 << 20
	maxFact    = 64 << 10
	maxMissing = 100
	maxAlso    = 1000
)

// readFacts reads lines up to "ready". For the lines see capture. A box that reported "failed" may
// end without that.
func readFacts(r *bufio.Reader) (facts, error) {
	f := facts{stays: map[string]string{}}
	for size := 0; size < maxFacts; {
		b, err := bounded.ReadLine(r, maxFact)
		if err != nil {
			if f.failed != "" && errors.Is(err, io.EOF) {
				return f, nil
			}
			return f, err
		}
		size += len(b) + 1
		what, value, _ := strings.Cut(string(b), " ")
		if what == "ready" {
			return f, f.check()
		}
		if err := f.take(what, value); err != nil {
			return f, err
		}
	}
	return f, errors.New("it is too long")
}

// take records one line and ignores lines of unknown kinds.
func (f *facts) take(what, value string) error {
	switch what {
	case "format":
		f.format = value
	case "tree":
		return f.takeTree(strings.SplitN(value, " ", 5))
	case "change":
		if len(f.trees) == 0 {
			return errors.New("it names a change of no work tree")
		}
		last := &f.trees[len(f.trees)-1]
		last.changed = append(last.changed, value)
	case "ref":
		v := strings.SplitN(value, " ", 3)
		if len(v) < 3 || len(f.refs) > 100*maxAlso {
			return fmt.Errorf("%.80q is no ref", value)
		}
		f.refs = append(f.refs, branch(v[0], v[1], v[2]))
	case "repository":
		f.at = value
	case "commit":
		id, title, _ := strings.Cut(value, " ")
		f.commits = append(f.commits, commit{workspace.Commit{ID: id, Title: title}, f.at})
	case "missing":
		f.missing = note(f.missing, agentbox.Printable(value))
	case "raw":
		filter, path, _ := strings.Cut(value, " ")
		f.raw = note(f.raw, fmt.Sprintf("%s is kept as it lies in the box: its filter %s cannot run there", agentbox.Printable(path), agentbox.Printable(filter)))
	case "stays":
		if why, path, _ := strings.Cut(value, " "); len(f.stays) < maxAlso {
			f.stays[path] = why
		}
	case "files":
		f.files = value
	case "rest":
		f.rest = value
	case "failed":
		f.failed = agentbox.Printable(value)
		if f.failed == "" {
			f.failed = "git in the box fails"
		}
	}
	return nil
}

// note appends a line unless there are too many.
func note(notes []string, text string) []string {
	if len(notes) < maxMissing {
		notes = append(notes, text)
	}
	return notes
}

// takeTree records a work tree: TOP HEAD FILES REF PATH.
func (f *facts) takeTree(v []string) error {
	if len(v) < 5 || len(f.trees) > maxAlso {
		return errors.New("it names too many work trees, or one without a path")
	}
	files, err := strconv.Atoi(v[2])
	if err != nil || files < 0 {
		return errors.New("it counts wrong")
	}
	f.trees = append(f.trees, tree{path: v[4], ref: v[3], head: strings.TrimPrefix(v[1], "-"), top: v[0], files: files})
	return nil
}

// check verifies that all object names match the reported format, and that there is a workspace.
func (f *facts) check() error {
	digits := map[string]int{"sha1": 40, "sha256": 64}[f.format]
	var ids []string
	for _, t := range f.trees {
		if ids = append(ids, t.top); t.head != "" {
			ids = append(ids, t.head)
		}
	}
	for _, b := range f.refs {
		ids = append(ids, b.Commit)
	}
	if f.rest != "" {
		ids = append(ids, f.rest)
	}
	for _, c := range f.commits {
		ids = append(ids, c.ID)
	}
	for _, id := range ids {
		if !isObject(id, digits) {
			return fmt.Errorf("%.80q is not a commit", id)
		}
	}
	if len(f.trees) == 0 || f.trees[0].path != "." {
		return errors.New("it does not name the workspace")
	}
	return nil
}

// isObject reports whether id is a full object name with that many hex digits.
func isObject(id string, digits int) bool {
	return digits > 0 && len(id) == digits && strings.Trim(id, "0123456789abcdef") == ""
}

// invalidAnswerError returns the error for a box whose answer is invalid.
func invalidAnswerError(err error) error {
	return agentbox.Classify(agentbox.Conflict, "the box cannot tell what its workspace holds: %w", err)
}
