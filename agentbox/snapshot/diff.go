package snapshot

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/git"
)

// Difference is what changed between two commits of a mirror. Paths are valid UTF-8, whatever the
// box called its files.
type Difference struct {
	Files     []agentbox.FileChange
	Text      []byte // as git shows it
	Truncated bool   // Text, or Files, is only the beginning
}

// Look says how Text is made. The zero value is a patch without colours.
type Look struct {
	Stat  bool // a line per file, no contents
	Color bool
	Width int // of lines of Stat; 0 is git's own
}

// maxText bounds Text. In bytes.
const maxText = 64 << 20

// driverless keeps git from running a program for a file; the mirror's configuration names none
// either.
var driverless = []string{"--no-ext-diff", "--no-textconv", "--find-renames", "--ignore-submodules=none"}

// Diff compares what was kept with what the box began with, in the mirror. Conflict when git cannot
// compare the two. With look.Color the text has escape sequences of git's, and what files hold
// stands in it as it is: it is for a pager, or to be made printable.
func Diff(ctx context.Context, kept Kept, look Look) (Difference, error) {
	m := mirror{kept.Mirror}
	base, err := m.baseOf(ctx, kept)
	if err != nil {
		return Difference{}, err
	}
	files, more, err := m.changes(ctx, base, kept.Whole)
	if err != nil {
		return Difference{}, err
	}
	args := append([]string{"diff"}, driverless...)
	switch {
	case look.Stat && look.Width > 0:
		args = append(args, "--stat="+strconv.Itoa(look.Width))
	case look.Stat:
		args = append(args, "--stat")
	default:
		args = append(args, "--patch", "--binary")
	}
	if look.Color {
		args = append(args, "--color=always")
	}
	var text bytes.Buffer
	w := &bounded.Head{W: &text, Left: maxText}
	_, _, err = m.Run(ctx, git.Call{Args: append(args, base, kept.Whole), Stdout: w})
	if err != nil {
		return Difference{}, incomparable(err)
	}
	return Difference{Files: files, Text: text.Bytes(), Truncated: more || w.Left == 0}, nil
}

// Changes are the files of a Difference, of very many the first. It takes one process less than
// Diff.
func Changes(ctx context.Context, kept Kept) ([]agentbox.FileChange, error) {
	m := mirror{kept.Mirror}
	base, err := m.baseOf(ctx, kept)
	if err != nil {
		return nil, err
	}
	files, _, err := m.changes(ctx, base, kept.Whole)
	return files, err
}

// changes lists the files that differ, of very many the first.
func (m mirror) changes(ctx context.Context, from, to string) (files []agentbox.FileChange, truncated bool, err error) {
	var out bytes.Buffer
	w := &bounded.Head{W: &out, Left: maxText}
	args := slices.Concat([]string{"diff"}, driverless, []string{"--raw", "--numstat", "-z", "--no-abbrev", from, to})
	if _, _, err := m.Run(ctx, git.Call{Args: args, Stdout: w}); err != nil {
		return nil, false, incomparable(err)
	}
	return parseChanges(out.String()), w.Left == 0, nil
}

// incomparable is the error of commits that git cannot compare, as those that mean more files than
// it has memory for.
func incomparable(err error) error {
	failed, ok := errors.AsType[*git.Error](err)
	if !ok {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "what changed cannot be listed: git says %s", agentbox.Printable(failed.Error())).
		WithHint("agentbox pull brings it here as it is")
}

// baseOf is what to compare with: a tree without files where the box began with no commit, or with
// one that is nowhere. It is what a diff begins at, a commit or a tree.
func (m mirror) baseOf(ctx context.Context, kept Kept) (string, error) {
	if began := kept.began(); began != "" {
		if has, err := m.has(ctx, began); err != nil || has[began] {
			return began, err
		}
	}
	return m.emptyTree(ctx)
}

// statuses are git's letters (git-diff(1), raw output format) in our words; any other letter gives
// "".
var statuses = map[byte]string{'A': "added", 'D': "deleted", 'M': "modified", 'R': "renamed", 'C': "copied", 'T': "type"}

// parseChanges reads what git diff --raw --numstat -z prints: first all lines of the one, then all
// of the other, in the same order. It may end anywhere, as it is cut at maxText.
func parseChanges(out string) []agentbox.FileChange {
	files := []agentbox.FileChange{}
	fields := strings.Split(out, "\x00")
	next := func() string {
		if len(fields) == 0 {
			return ""
		}
		f := fields[0]
		fields = fields[1:]
		return f
	}
	for len(fields) > 0 && strings.HasPrefix(fields[0], ":") {
		head := strings.Fields(next())
		f := agentbox.FileChange{Path: next(), Status: statuses[head[len(head)-1][0]]}
		if f.Status == "renamed" || f.Status == "copied" {
			f.From, f.Path = f.Path, next()
		}
		files = append(files, f)
	}
	for i := 0; i < len(files) && len(fields) > 0; i++ {
		counts := strings.SplitN(next(), "\t", 3)
		if len(counts) < 3 {
			break
		}
		// git writes the names after the numbers only for renames and copies.
		if counts[2] == "" { // a rename: both names follow
			next()
			next()
		}
		added, err := strconv.Atoi(counts[0])
		deleted, _ := strconv.Atoi(counts[1])
		files[i].Added, files[i].Deleted, files[i].Binary = added, deleted, err != nil
	}
	for i := range files {
		files[i].Path, files[i].From = pathText(files[i].Path), pathText(files[i].From)
	}
	return files
}

// maxPath bounds names of files in a list: no file system has longer ones, and a commit may.
const maxPath = 4096

// pathText is a path as a list shows it.
func pathText(path string) string {
	if len(path) > maxPath {
		path = path[:maxPath] + "…"
	}
	return strings.ToValidUTF8(path, "\ufffd")
}
