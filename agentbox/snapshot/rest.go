package snapshot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/git"
	"agentbox/agentbox/workspace"
)

// rest is what restores a workspace exactly and is in no commit of it (captureRest). A box wrote it:
// parseRest checks the form, and each path is below the workspace.
type rest struct {
	index  []string             // lines of git update-index -z --index-info
	hidden map[byte][]string    // paths by the letter of git ls-files -v
	modes  map[string]uint32    // permissions, where git does not keep them
	refs   map[string]string    // commits, or tags, by branch, tag or stash
	tags   map[string]string    // annotated tags: their text by their ID
	before string               // the branch that was checked out before, for git switch -
	times  map[string]time.Time // of files that differ from HEAD, and of ignored ones
}

// maxRest bounds each file of the rest, in bytes.
const maxRest = 64 << 20

// restFiles are the files that parseRest reads. Boxes of earlier builds did not write the last two.
var restFiles = []string{"staged", "unmerged", "flags", "modes", "times", "refs", "tags", "before"}

// readRest reads the rest that a commit of the mirror has.
func (m mirror) readRest(ctx context.Context, commit string) (rest, error) {
	text := map[string]string{}
	ask := strings.NewReader(commit + ":" + strings.Join(restFiles, "\n"+commit+":") + "\n")
	err := background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		_, _, err := m.Run(ctx, git.Call{Args: []string{"cat-file", "--batch"}, Stdin: ask, Stdout: w})
		return mirrorError(err)
	}, func(_ context.Context, r io.Reader) error {
		in := bufio.NewReader(r)
		for i, name := range restFiles {
			blob, err := readBlob(in)
			if errors.Is(err, fs.ErrNotExist) && i >= len(restFiles)-2 {
				err = nil
			}
			if err != nil {
				return err
			}
			text[name] = blob
		}
		return nil
	})
	if err != nil {
		return rest{}, err
	}
	return parseRest(text)
}

// readBlob reads one answer of git cat-file --batch, up to maxRest bytes of it.
func readBlob(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(line, " missing\n") {
		return "", mirrorError(fmt.Errorf("%.100q: %w", line, fs.ErrNotExist))
	}
	f := strings.Fields(line) // ID TYPE SIZE
	if len(f) != 3 || f[1] != "blob" {
		return "", mirrorError(fmt.Errorf("%.100q is no file", line))
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return "", err
	}
	blob := make([]byte, min(size, maxRest))
	if _, err := io.ReadFull(in, blob); err != nil {
		return "", err
	}
	_, err = io.CopyN(io.Discard, in, size-int64(len(blob))+1)
	return string(blob), err
}

// parseRest reads what captureRest wrote. The error is Corrupt.
func parseRest(text map[string]string) (r rest, err error) {
	r = rest{hidden: map[byte][]string{}, modes: map[string]uint32{}, refs: map[string]string{}, tags: map[string]string{}, times: map[string]time.Time{}}
	err = errors.Join(r.parseStaged(text["staged"]), r.parseUnmerged(text["unmerged"]), r.parseFlags(text["flags"]), r.parseModes(text["modes"]), r.parseRefs(text["refs"]), r.parseTags(text["tags"]), r.parseTimes(text["times"]))
	if name := strings.TrimSuffix(text["before"], "\n"); refOfBox().MatchString(name) && !isObject(name, len(name)) {
		r.before = name
	}
	if err != nil {
		err = agentbox.Classify(agentbox.Corrupt, "what the box says of its index cannot be read: %w", err)
	}
	return r, err
}

// fields splits text that has a zero byte after each field.
func fields(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
}

// parseStaged reads ":OLD NEW OLDID NEWID STATUS", a zero byte and the path. Conflicts are in the
// list of those.
func (r *rest) parseStaged(text string) error {
	all := fields(text)
	for i := 0; i+1 < len(all); i += 2 {
		f := strings.Fields(all[i])
		if len(f) != 5 || !strings.HasPrefix(f[0], ":") {
			return fmt.Errorf("%.80q is no change", all[i])
		}
		if f[4] == "U" {
			continue
		}
		if err := r.addIndex(f[1], f[3], "0", all[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// parseUnmerged reads "MODE ID STAGE\tPATH".
func (r *rest) parseUnmerged(text string) error {
	last := ""
	for _, line := range fields(text) {
		facts, name, _ := strings.Cut(line, "\t")
		f := strings.Fields(facts)
		if len(f) != 3 || f[2] < "1" || f[2] > "3" || len(f[2]) != 1 {
			return fmt.Errorf("%.80q is no conflict", line)
		}
		if name != last { // a file with a conflict has no other entry
			if err := r.addIndex("0", strings.Repeat("0", len(f[1])), "0", name); err != nil {
				return err
			}
		}
		last = name
		if err := r.addIndex(f[0], f[1], f[2], name); err != nil {
			return err
		}
	}
	return nil
}

func (r *rest) addIndex(mode, id, stage, name string) error {
	if !workspace.ValidName(name) || !isObject(id, len(id)) || len(id) != 40 && len(id) != 64 {
		return fmt.Errorf("%.80q cannot be in an index", name)
	}
	switch mode {
	case "100644", "100755", "120000", "160000":
	case "0", "000000":
		mode = "0"
	default:
		return fmt.Errorf("%.80q has mode %.10q", name, mode)
	}
	r.index = append(r.index, fmt.Sprintf("%s %s %s\t%s", mode, id, stage, name))
	return nil
}

// parseFlags reads "LETTER PATH" of git ls-files -v: lower-case for files that git takes for
// unchanged, S for those that it does not write; I for those that are to be added, A for absent ones.
func (r *rest) parseFlags(text string) error {
	for _, line := range fields(text) {
		if len(line) < 3 || line[1] != ' ' || !workspace.ValidName(line[2:]) {
			return fmt.Errorf("%.80q is no file with a flag", line)
		}
		r.hidden[line[0]] = append(r.hidden[line[0]], line[2:])
	}
	return nil
}

// parseRefs reads "ID REF". Names that are not usual ones are left out.
func (r *rest) parseRefs(text string) error {
	for line := range strings.Lines(text) {
		id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || !isObject(id, len(id)) || !strings.HasPrefix(name, "refs/") {
			return fmt.Errorf("%.80q is no ref", line)
		}
		if refOfBox().MatchString(name) {
			r.refs[name] = id
		}
	}
	return nil
}

// parseTags reads "ID tag SIZE", the text and a line end. What git does not have is left out.
func (r *rest) parseTags(text string) error {
	for text != "" {
		line, after, _ := strings.Cut(text, "\n")
		f := strings.Fields(line)
		if text = after; len(f) == 2 && f[1] == "missing" {
			continue
		}
		size := -1
		if len(f) == 3 && f[1] == "tag" && isObject(f[0], len(f[0])) {
			size, _ = strconv.Atoi(f[2])
		}
		if size < 0 || size >= len(after) || !isObject(tagged(after[:size]), len(f[0])) {
			return fmt.Errorf("%.80q is no tag", line)
		}
		r.tags[f[0]], text = after[:size], after[size+1:]
	}
	return nil
}

// parseModes reads "MODE ./PATH".
func (r *rest) parseModes(text string) error {
	for _, line := range fields(text) {
		mode, name, _ := strings.Cut(line, " ./")
		n, err := strconv.ParseUint(mode, 8, 12)
		if err != nil || n > 0o777 {
			return fmt.Errorf("%.80q has no mode", line)
		}
		if workspace.ValidName(name) { // others are in a nested repository's .git
			r.modes[name] = uint32(n)
		}
	}
	return nil
}

// parseTimes reads what git ls-files --debug -z prints: the path, a zero byte, and lines of which the
// second is "  mtime: SECONDS:NANOSECONDS".
func (r *rest) parseTimes(text string) error {
	for text != "" {
		name, after, ok := strings.Cut(text, "\x00")
		if !ok || !workspace.ValidName(name) {
			return fmt.Errorf("%.80q has no time", name)
		}
		lines := bufio.NewScanner(strings.NewReader(after[:min(len(after), 4<<10)]))
		size, at := 0, time.Time{}
		for lines.Scan() && strings.HasPrefix(lines.Text(), "  ") {
			size += len(lines.Text()) + 1
			if value, ok := strings.CutPrefix(lines.Text(), "  mtime: "); ok {
				seconds, nanos, _ := strings.Cut(value, ":")
				s, err1 := strconv.ParseUint(seconds, 10, 34)
				n, err2 := strconv.ParseUint(nanos, 10, 30)
				if err := errors.Join(err1, err2); err != nil {
					return err
				}
				at = time.Unix(int64(s), int64(n))
			}
		}
		if at.IsZero() || size > len(after) {
			return fmt.Errorf("%.80q has no time", name)
		}
		r.times[name], text = at, after[size:]
	}
	return nil
}

// apply makes the index, the modes and times, and the state of an interrupted operation of a checkout
// in dir what they were. to is its repository, and commit has the rest.
func (m mirror) apply(ctx context.Context, r rest, commit string, to mirror, dir string) error {
	update := func(lines []string, args ...string) error {
		if len(lines) == 0 {
			return nil
		}
		in := strings.NewReader(strings.Join(lines, "\x00") + "\x00")
		_, err := to.git(ctx, in, append([]string{"update-index", "-z"}, args...)...)
		return mirrorError(err)
	}
	err := update(r.index, "--index-info")
	for letter, names := range r.hidden {
		if letter == 'A' {
			continue
		}
		if letter == 'I' {
			_, _, addErr := to.Run(ctx, git.Call{
				Env: []string{"GIT_WORK_TREE=" + dir}, Stdin: strings.NewReader(joined(names)), Args: []string{"-C", dir, "add", "-N", "-f", "--pathspec-from-file=-", "--pathspec-file-nul"},
			})
			err = errors.Join(err, mirrorError(addErr))
			continue
		}
		if letter == 'S' || letter == 's' {
			err = errors.Join(err, update(names, "--skip-worktree", "--stdin"))
		}
		if letter != 'S' {
			err = errors.Join(err, update(names, "--assume-unchanged", "--stdin"))
		}
	}
	err = errors.Join(err, r.writeTags(ctx, to))
	for name, id := range r.refs { // one that cannot be beside another is left out
		args := []string{"update-ref", "--no-deref", name, id, ""}
		if _, ok := r.tags[id]; ok { // over the commit that it leads to
			args = args[:4]
		}
		if _, err := to.git(ctx, nil, args...); err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err == nil {
		err = m.writeState(ctx, commit+":state", to.dir)
	}
	if err == nil {
		err = errors.Join(r.setModes(dir), r.writeBefore(ctx, to))
	}
	return err
}

// writeBefore has a checkout remember the branch that was checked out before its own. Git takes an entry of
// a reflog for damaged whose time is 0.
func (r rest) writeBefore(ctx context.Context, to mirror) error {
	head, err := to.git(ctx, nil, "rev-parse", "-q", "--verify", "HEAD")
	if id := strings.TrimSpace(head); err == nil && r.before != "" && os.MkdirAll(filepath.Join(to.dir, "logs"), 0o755) == nil {
		line := fmt.Sprintf("%s %[1]s agentbox <agentbox@localhost> 1 +0000\tcheckout: moving from %s to HEAD\n", id, r.before)
		return os.WriteFile(filepath.Join(to.dir, "logs", "HEAD"), []byte(line), 0o644)
	}
	return ctx.Err()
}

// writeTags writes the annotated tags of what to has: the inner ones of tags of tags first. Those that git
// takes for damaged stay names of commits.
func (r rest) writeTags(ctx context.Context, to mirror) error {
	left := maps.Clone(r.tags)
	for len(left) > 0 {
		var of []string
		for _, text := range left {
			of = append(of, tagged(text))
		}
		lacking, err := git.Lacking(ctx, to, of)
		if err != nil {
			return mirrorError(err)
		}
		next := map[string]string{}
		for id, text := range left {
			if !slices.Contains(lacking, tagged(text)) {
				next[id] = text
				delete(left, id)
			}
		}
		if len(next) == 0 {
			return nil
		}
		if err := writeTagObjects(ctx, to, next); err != nil {
			return err
		}
	}
	return nil
}

// tagged is the object that a tag with this text names.
func tagged(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimPrefix(line, "object ")
}

func writeTagObjects(ctx context.Context, to mirror, tags map[string]string) error {
	dir, err := os.MkdirTemp(to.dir, "tags-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var paths strings.Builder
	for id, text := range tags {
		path := filepath.Join(dir, id)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		paths.WriteString(path + "\n")
	}
	// What has another ID than the box said is an object that nothing names.
	_, err = to.git(ctx, strings.NewReader(paths.String()), "hash-object", "-w", "-t", "tag", "--no-filters", "--stdin-paths")
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// stateFiles are what captureRest takes from a git directory. Nothing else is written there.
var stateFiles = agentbox.Pattern(`^(MERGE_(HEAD|MSG|MODE|AUTOSTASH)|SQUASH_MSG|CHERRY_PICK_HEAD|REVERT_HEAD|REBASE_HEAD|BISECT_[A-Z_]+|(rebase-merge|rebase-apply|sequencer)/[A-Za-z0-9._-]+)$`)

// writeState writes the files of an interrupted operation. What git would run of them, the lines of a
// rebase's plan, it runs in a box only: a checkout that is made here is the source of a box.
func (m mirror) writeState(ctx context.Context, tree, gitDir string) error {
	if err := m.checkState(ctx, tree); err != nil {
		return err
	}
	return m.writeFiles(ctx, []string{tree}, gitDir, &treeWriter{at: time.Unix(0, 0)})
}

// checkState refuses a tree that has more than the files of an interrupted operation.
func (m mirror) checkState(ctx context.Context, tree string) error {
	out, _, err := m.Run(ctx, git.Call{Args: []string{"ls-tree", "-r", "-z", "--full-tree", tree}})
	if err != nil {
		return mirrorError(err)
	}
	for _, line := range fields(string(out)) {
		facts, name, _ := strings.Cut(line, "\t")
		if !strings.HasPrefix(facts, "100644 ") || !stateFiles().MatchString(name) || strings.Contains(name, "..") {
			return agentbox.Errorf(agentbox.Corrupt, "%q is no file of an interrupted operation", name)
		}
	}
	return nil
}

// setModes removes what a sparse checkout leaves out, and sets permissions and times. Files that are
// not there are skipped, and so are links, whose target may be elsewhere.
func (r rest) setModes(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	regular := func(name string) bool {
		info, err := root.Lstat(name)
		return err == nil && info.Mode().IsRegular()
	}
	for _, name := range r.hidden['A'] {
		if err := removeUp(root, name); err != nil {
			return err
		}
	}
	for name, mode := range r.modes {
		if regular(name) {
			err = errors.Join(err, root.Chmod(name, fs.FileMode(mode|0o400))) // the host has to read it
		}
	}
	for name, at := range r.times {
		if regular(name) {
			err = errors.Join(err, root.Chtimes(name, at, at))
		}
	}
	return err
}

// removeUp removes a file, and the directories above it that are empty then. What lies where one of
// those would be stays.
func removeUp(root *os.Root, name string) error {
	if info, err := root.Lstat(path.Dir(name)); err != nil || !info.IsDir() {
		return nil
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(name); dir != "." && root.Remove(dir) == nil; dir = path.Dir(dir) {
	}
	return nil
}

// refOfBox matches names of refs that are restored. Others of the box's are in the mirror only.
var refOfBox = agentbox.Pattern(`^[A-Za-z0-9_][A-Za-z0-9._+@-]*(/[A-Za-z0-9_][A-Za-z0-9._+@-]*)*$`)

// inGitDir matches what commits are called that no ref names. A branch of such a name is in the rest.
var inGitDir = agentbox.Pattern(`^(detached|orig-head|autostash|MERGE_AUTOSTASH|[^/]*_HEAD)$`)

// restoreRefs gives a checkout in dir the box's other branches, tags and stashes, and makes its nested
// repositories. Two refs of which only one can be are the first.
func (m mirror) restoreRefs(ctx context.Context, others []Branch, to mirror, dir string) error {
	nested, stashes := map[string][]Branch{}, []Branch(nil)
	for _, b := range others {
		if b.Path != "" {
			nested[b.Path] = append(nested[b.Path], b)
			continue
		}
		if b.Name == stashRef {
			stashes = append(stashes, b)
			continue
		}
		name := b.Name
		if !strings.HasPrefix(name, "refs/") {
			name = "refs/heads/" + name
		}
		if !refOfBox().MatchString(name) || inGitDir().MatchString(b.Name) {
			continue
		}
		if _, err := to.git(ctx, nil, "update-ref", "--no-deref", name, b.Commit, ""); err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := restoreStashes(ctx, stashes, to); err != nil {
		return err
	}
	for at, all := range nested {
		if !workspace.ValidName(at) || strings.HasPrefix(at, "/") || strings.HasPrefix(at, ".git/") {
			continue // another work tree, which lies outside
		}
		if err := m.restoreNested(ctx, all, at, dir); err != nil {
			return err
		}
	}
	return nil
}

// restoreNested makes a repository in a directory of the checkout, by os.Root: a link of the box's
// must not lead elsewhere. Its work tree is the first of its branches that is one.
func (m mirror) restoreNested(ctx context.Context, all []Branch, at, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if info, err := root.Lstat(path.Join(at, ".git")); err == nil || info != nil {
		return nil
	}
	for p := at; p != "."; p = path.Dir(p) {
		if info, err := root.Lstat(p); err != nil || !info.IsDir() {
			return err
		}
	}
	first := all[0]
	for _, b := range all {
		if b.Files > 0 {
			first = b
			break
		}
	}
	branch := first.Name
	if strings.HasPrefix(branch, "refs/") || branch == "detached" || !refOfBox().MatchString(branch) {
		branch = "agentbox"
	}
	kept := Kept{Mirror: m.dir, Commit: first.Commit, Whole: first.Commit, Files: first.Files, Ref: first.Ref}
	for _, b := range all {
		if b.Commit != first.Commit {
			b.Path = ""
			kept.OtherRefs = append(kept.OtherRefs, b)
		}
	}
	return m.checkout(ctx, kept, branch, filepath.Join(dir, filepath.FromSlash(at)), "")
}
