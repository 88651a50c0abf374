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

// Difference is what changed between two commits of a mirror. Paths are valid UTF-8, whatever
// names the files have in the box.
type Difference struct {
	Files     []agentbox.FileChange
	Text      []byte // as printed by git
	Truncated bool   // Text or Files is incomplete
}

// DiffOptions says how to format Text. The zero value is a patch without colours.
type DiffOptions struct {
	Stat  bool // one line per file, without contents
	Color bool
	Width int // of a line of Stat; 0 is git's default
}

// maxText bounds Text, in bytes.
const maxText = 64 << 20

// diffOptions keeps git from running external programs for a file. The mirror's configuration
// names none either.
var diffOptions = []string{"--no-ext-diff", "--no-textconv", "--find-renames", "--ignore-submodules=none"}

// Diff compares, in the mirror, what was kept with what the box began with. It fails with code
// Conflict if git cannot compare the two. Text contains file contents unescaped and, with
// look.Color, git's escape sequences: show it in a pager or make it printable first.
func Diff(ctx context.Context, kept Kept, look DiffOptions) (Difference, error) {
	m := mirror{kept.Mirror}
	base, err := m.baseOf(ctx, kept)
	if err != nil {
		return Difference{}, err
	}
	files, more, err := m.changes(ctx, base, kept.Whole)
	if err != nil {
		return Difference{}, err
	}
	args := append([]string{"diff"}, diffOptions...)
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
	w := &bounded.Head{W: &text, Remaining: maxText}
	_, _, err = m.Run(ctx, git.Call{Args: append(args, base, kept.Whole), Stdout: w})
	if err != nil {
		return Difference{}, diffError(err)
	}
	return Difference{Files: files, Text: text.Bytes(), Truncated: more || w.Remaining == 0}, nil
}

// Changes returns the Files of a Difference, truncated if there are very many. It needs one
// process less than Diff.
func Changes(ctx context.Context, kept Kept) ([]agentbox.FileChange, error) {
	m := mirror{kept.Mirror}
	base, err := m.baseOf(ctx, kept)
	if err != nil {
		return nil, err
	}
	files, _, err := m.changes(ctx, base, kept.Whole)
	return files, err
}

// changes lists the files that differ, truncated at maxText bytes of git's output.
func (m mirror) changes(ctx context.Context, from, to string) (files []agentbox.FileChange, truncated bool, err error) {
	var out bytes.Buffer
	w := &bounded.Head{W: &out, Remaining: maxText}
	args := slices.Concat([]string{"diff"}, diffOptions, []string{"--raw", "--numstat", "-z", "--no-abbrev", from, to})
	if _, _, err := m.Run(ctx, git.Call{Args: args, Stdout: w}); err != nil {
		return nil, false, diffError(err)
	}
	return parseChanges(out.String()), w.Remaining == 0, nil
}

// diffError returns the error for commits that git cannot compare, for example because they
// expand to more files than fit into memory.
func diffError(err error) error {
	failed, ok := errors.AsType[*git.Error](err)
	if !ok {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "what changed cannot be listed: git says %s", agentbox.Printable(failed.Error())).
		WithHint("agentbox pull brings it here as it is")
}

// baseOf returns the commit or tree to compare with: an empty tree if the box began without a
// commit, or if the mirror lacks that commit.
func (m mirror) baseOf(ctx context.Context, kept Kept) (string, error) {
	if began := kept.began(); began != "" {
		if has, err := m.has(ctx, began); err != nil || has[began] {
			return began, err
		}
	}
	return m.emptyTree(ctx)
}

// statuses translates git's status letters (git-diff(1), raw output format). Other letters yield
// "".
var statuses = map[byte]string{'A': "added", 'D': "deleted", 'M': "modified", 'R': "renamed", 'C': "copied", 'T': "type"}

// parseChanges parses the output of git diff --raw --numstat -z: all raw lines, then all numstat
// lines in the same order. The output may be cut anywhere, at maxText.
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
		// git prints the names after the numbers only for renames and copies.
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

// maxPath bounds file names in a list, in bytes. No file system has longer ones, but a commit
// can.
const maxPath = 4096

// pathText returns path as shown in a list: truncated and valid UTF-8.
func pathText(path string) string {
	if len(path) > maxPath {
		path = path[:maxPath] + "…"
	}
	return strings.ToValidUTF8(path, "\ufffd")
}
