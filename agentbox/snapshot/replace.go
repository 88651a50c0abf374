package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/git"
)

// Replace has the workspace of a box go on from another state, to, whose objects are in the mirror, if
// it has the same work as in from: describe says which snapshot is what is kept of it now. All that runs in
// the box stands still meanwhile. Files get their contents from git in the box, and the time of now, so
// that tools see what changed; a file that is in the way and that no snapshot has is not overwritten,
// and then nothing is changed. done is false, without an error, for a box that is not as it was.
func Replace(ctx context.Context, g Guest, req Request, from, to Document, describe func(context.Context, Kept) (Document, error)) (done bool, err error) {
	release, err := hold(ctx, g)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, release()) }()
	kept, err := Keep(ctx, g, req)
	if err != nil {
		return false, err
	}
	now, err := describe(ctx, kept)
	if err != nil || !slices.Equal(now.nested(), to.nested()) {
		return false, err
	}
	if same, err := now.SameWork(ctx, req.Mirror, from); err != nil || !same {
		return false, err
	}
	return true, mirror{kept.Mirror}.put(ctx, g, req.Dir, now, to)
}

// nested are the states of the repositories in the workspace, which are not replaced.
func (d Document) nested() (all []string) {
	for _, o := range d.Others {
		if o.Path != "" {
			all = append(all, o.Path+" "+o.Name+" "+o.Commit)
		}
	}
	slices.Sort(all)
	return all
}

// stand stops everything that its user runs in a box, until its input ends. In a place that is not a
// machine of its own (place.Rooted) everything goes on.
const stand = `
read -r first </proc/1/comm
if [ "$first" = agentbox-guest ]; then
	trap 'kill -CONT -1 2>/dev/null' EXIT
	trap 'exit 1' HUP INT TERM
	kill -STOP -1 2>/dev/null
fi
echo still
read -r end
exit 0
`

// hold has what runs in a box stand still until release is called, or the connection is lost.
func hold(ctx context.Context, g Guest) (release func() error, err error) {
	in, end := io.Pipe()
	out, said := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := g.Exec(ctx, environment.Command{Argv: []string{"sh", "-c", stand}, Stdin: in, Stdout: said})
		said.CloseWithError(errors.Join(err, io.ErrUnexpectedEOF))
		done <- err
	}()
	release = func() error {
		end.Close()
		return <-done
	}
	word := make([]byte, len("still\n"))
	if _, err := io.ReadFull(out, word); err != nil {
		return nil, errors.Join(agentbox.Errorf(agentbox.Unavailable, "the box cannot be made to stand still: %w", err), release())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return release, nil
}

// put is Replace for a box that is as it was, from.
func (m mirror) put(ctx context.Context, g Guest, dir string, from, to Document) error {
	before, err := m.restOf(ctx, from)
	if err != nil {
		return err
	}
	after, err := m.restOf(ctx, to)
	if err != nil {
		return err
	}
	delete(before.refs, stashRef) // they are a stack
	delete(after.refs, stashRef)
	refs, err := m.moves(ctx, before.refs, after.refs)
	if err != nil {
		return err
	}
	if to.Rest != "" {
		if err := m.checkState(ctx, to.Rest+":state"); err != nil {
			return err
		}
	}
	if err := m.bring(ctx, g, dir, to.tips(), from.tips(), []string{from.Head, from.Base, to.Base}, "", ""); err != nil {
		return err
	}
	none, err := m.emptyTree(ctx)
	if err != nil {
		return err
	}
	env := map[string]string{"OLD": from.Whole, "NEW": to.Whole, "OLDREST": from.Rest, "REST": to.Rest, "HEAD": to.Head, "BRANCH": to.Branch, "REFS": refs, "NONE": none,
		"FLAGS": "", "STASHED": "", "MODES": strings.Join(after.allModes(), " "), "MOVED": "1"}
	if len(after.hidden) > 0 {
		env["FLAGS"] = "1"
	}
	if was, is := from.stashes(), to.stashes(); !slices.Equal(was, is) {
		env["STASHED"], env["STASHES"], env["OLDSTASH"] = "1", strings.Join(is, " "), ""
		if len(was) > 0 {
			env["OLDSTASH"] = was[0]
		}
	}
	if from.Branch == to.Branch && (to.Branch != "" || from.Head == to.Head) {
		env["MOVED"] = ""
	}
	return tell(ctx, g, environment.Command{Argv: []string{"sh", "-c", putScript}, Dir: dir, Stdin: strings.NewReader(joined(after.index)), Env: env})
}

// allModes are the modes that some file has.
func (r rest) allModes() (all []string) {
	for _, mode := range r.modes {
		all = append(all, fmt.Sprintf("%o", mode))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func joined(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\x00") + "\x00"
}

func (m mirror) restOf(ctx context.Context, d Document) (rest, error) {
	if d.Rest == "" {
		return rest{}, nil
	}
	return m.readRest(ctx, d.Rest)
}

// maxMoves bounds the lines of moves, in bytes: they are a variable of a process.
const maxMoves = 100 << 10

// moves are lines for git update-ref --stdin, which takes all of them or none: each ref must be where
// it was.
func (m mirror) moves(ctx context.Context, from, to map[string]string) (string, error) {
	has, err := m.has(ctx, slices.Concat(slices.Collect(maps.Values(from)), slices.Collect(maps.Values(to)))...)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(to)) {
		switch old, id := from[name], to[name]; {
		case old == id || !has[id]: // tags that are objects of their own are not in a snapshot
		case old == "":
			fmt.Fprintf(&text, "create %s %s\n", name, id)
		default:
			fmt.Fprintf(&text, "update %s %s %s\n", name, id, old)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if to[name] == "" && has[from[name]] {
			fmt.Fprintf(&text, "delete %s %s\n", name, from[name])
		}
	}
	if text.Len() > maxMoves {
		return "", agentbox.Errorf(agentbox.Conflict, "too many branches have changed")
	}
	return text.String(), nil
}

// Offer brings a snapshot into a box under a ref, and changes nothing else there.
func Offer(ctx context.Context, g Guest, dir, mirrorDir, ref string, d Document) error {
	m := mirror{mirrorFor(mirrorDir, len(d.Whole))}
	return m.bring(ctx, g, dir, []string{d.Whole}, nil, []string{d.Base}, ref, d.Whole)
}

// maxLoose is up to how many objects become a file each, as in a git fetch.
const maxLoose = 100

// bring sends the objects of commits to a box, without those that it has, the trees of others, and sets a
// ref there, unless that is "".
func (m mirror) bring(ctx context.Context, g Guest, dir string, tips, without, known []string, ref, id string) error {
	list, err := git.List(ctx, m, tips, known)
	if err != nil {
		return mirrorError(err)
	}
	trees, err := git.List(ctx, m, without, append(known, tips...), "--filter=blob:none")
	if err != nil {
		return mirrorError(err)
	}
	loose := ""
	if list = append(list, trees...); bytes.Count(list, []byte("\n")) <= maxLoose {
		loose = "1"
	}
	cmd := environment.Command{Argv: []string{"sh", "-c", takeScript}, Dir: dir, Env: map[string]string{"REF": ref, "ID": id, "FEW": loose}}
	if pack := m.few(ctx, list, known[0], tips[0]); pack != nil {
		return pack.bring(ctx, g, cmd, loose != "" && ref == "")
	}
	return background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		return mirrorError(git.PackFew(ctx, m, w, list, known...))
	}, func(ctx context.Context, r io.Reader) error {
		cmd.Stdin = r
		return tell(ctx, g, cmd)
	})
}

// bring has a box take a pack: by its own program if it has that and small is set, and by cmd otherwise.
func (f few) bring(ctx context.Context, g Guest, cmd environment.Command, small bool) error {
	var pack bytes.Buffer
	if err := f.write(&pack); err != nil {
		return err
	}
	cmd.Stdin = bytes.NewReader(pack.Bytes())
	if small {
		native := cmd
		native.Argv = append([]string{takeProgram}, cmd.Argv...)
		if err := tell(ctx, g, native); err == nil || ctx.Err() != nil {
			return err
		}
		cmd.Stdin = bytes.NewReader(pack.Bytes())
	}
	return tell(ctx, g, cmd)
}

// tell runs a script that says "done" last, or why not. Its words are the box's.
func tell(ctx context.Context, g Guest, cmd environment.Command) error {
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &bounded.Head{W: &out, Remaining: maxComplaint}, &bounded.Head{W: &complaints, Remaining: maxComplaint}
	status, err := g.Exec(ctx, cmd)
	if err != nil || status.Code == 0 && strings.HasSuffix(out.String(), "done\n") {
		return err
	}
	said, changed := strings.CutPrefix(out.String(), "changed\n")
	why, _, _ := strings.Cut(strings.TrimSpace(said+complaints.String()), "\n")
	why = agentbox.Printable(strings.TrimPrefix(why, "failed "))
	if changed {
		return agentbox.Errorf(agentbox.Internal, "git in the box took a part of it only: %s", why)
	}
	return agentbox.Errorf(agentbox.Conflict, "git in the box cannot take it: %s", why)
}

// takeScript does not compress what deltas build on, and keeps its memory, which saves gVisor faults.
const takeScript = `
set -u
export MALLOC_MMAP_THRESHOLD_=268435456 MALLOC_TRIM_THRESHOLD_=536870912 MALLOC_TOP_PAD_=67108864
` + gitInBox + `
export GIT_DIR="$PWD/.git" GIT_WORK_TREE="$PWD"
if [ -n "$FEW" ]; then git -c core.compression=0 unpack-objects -q; else git -c core.compression=0 -c pack.threads=1 index-pack --stdin --fix-thin >/dev/null; fi || exit 1
[ -z "$REF" ] || git update-ref --no-deref "$REF" "$ID" || exit 1
echo done
`

// putScript changes a workspace from OLD, a commit with all of its files, to NEW. git read-tree with
// two trees does that as git switch does: it refuses, before it writes anything, what would overwrite
// a file that is not as in OLD. OLDREST and REST are what captureRest made of both, HEAD and BRANCH are
// what is checked out in the end, MOVED, not empty, if that is another, REFS are lines for git update-ref
// --stdin, NONE is the empty tree, and the input is for git update-index -z --index-info. FLAGS and MODES,
// if they are not empty, say that REST has any: each process costs some ten milliseconds under gVisor.
const putScript = `
set -u
fail() { echo "failed $*"; exit 1; }
` + gitInBox + `
export GIT_DIR="$PWD/.git" GIT_WORK_TREE="$PWD"
gitdir=$(git rev-parse --absolute-git-dir) || fail there is no repository any more
[ ! -e "$gitdir/index.lock" ] || fail "another git is at work"
t=$(mktemp -d) || fail there is no room
trap 'rm -rf "$t"' EXIT
clear() { # whether nothing is where a file is to be that the tree $1 lacks: git spares no file that is ignored
	git diff-tree -r -z --no-renames --name-only --diff-filter=AT "$1" "$2" >"$t/added"
	[ -s "$t/added" ] || return 0
	GIT_LITERAL_PATHSPECS=1 xargs -0 git -c 'safe.directory=*' -c core.fsmonitor=false ls-files -o -- <"$t/added" >"$t/why"
	tr '\0\n' '\n\001' <"$t/added" | sed -n 's|/[^/]*$||p' | sort -u | while IFS= read -r dir; do
		while [ ! -d "$dir" ] || [ -L "$dir" ]; do
			[ ! -e "$dir" ] && [ ! -L "$dir" ] || GIT_LITERAL_PATHSPECS=1 git ls-files -o -- "$dir" >>"$t/why"
			case $dir in */*) dir=${dir%/*} ;; *) break ;; esac
		done
	done
	[ ! -s "$t/why" ] || fail "$(head -n 1 "$t/why") is in the way, and is in no snapshot"
}
step() {
	git read-tree --reset "$1" 2>"$t/why" && { git update-index -q --refresh >/dev/null 2>&1 || :; } && clear "$1" "$2" && git read-tree -m -u "$1" "$2" 2>"$t/why" || fail "$(sed -n '/./{p;q;}' "$t/why")"
}
export GIT_INDEX_FILE="$t/index"
cp -p "$gitdir/index" "$t/index" 2>/dev/null
step "$OLD^{tree}" "$NEW^{tree}"
echo changed
old=${OLDREST:+$OLDREST:ignored} new=${REST:+$REST:ignored} state=${REST:+$REST:state}
set -- $(git rev-parse "${old:-$NONE}" "${new:-$NONE}" "${state:-$NONE}")
[ $# = 3 ] || fail what is ignored
GIT_INDEX_FILE="$t/ignored"
[ "$1" = "$2" ] || step "$1" "$2"
cp "$t/index" "$t/real"
GIT_INDEX_FILE="$t/real"
if [ -n "$HEAD" ]; then git read-tree --reset "$HEAD"; else git read-tree --empty; fi && git update-index -z --index-info || fail the index
told() { git cat-file blob "$REST:$1" | tr '\0\n' '\n\001' | sed -n "$2" | tr '\n\001' '\0\n' >"$t/told"; [ -s "$t/told" ]; }
if [ -n "$FLAGS" ]; then
	! told flags 's/^[Ss] //p' || git update-index -z --skip-worktree --stdin <"$t/told" || fail the index
	! told flags 's/^A //p' || xargs -0 rm -f -- <"$t/told"
	! told flags 's/^I //p' || GIT_LITERAL_PATHSPECS=1 git add -N -f --pathspec-from-file="$t/told" --pathspec-file-nul || fail the index
	! told flags 's/^[a-z] //p' || git update-index -z --assume-unchanged --stdin <"$t/told" || fail the index
fi
for mode in $MODES; do
	! told modes "s/^$mode //p" || xargs -0 chmod "$mode" <"$t/told" 2>/dev/null
done
[ -z "$REFS" ] || printf %s "$REFS" | git update-ref --stdin 2>"$t/why" || fail "$(head -n 1 "$t/why")"
` + restack + `
if [ -z "$MOVED" ]; then :; elif [ -n "$BRANCH" ]; then git symbolic-ref HEAD "refs/heads/$BRANCH"; elif [ -n "$HEAD" ]; then git update-ref --no-deref HEAD "$HEAD"; fi || fail HEAD
cp "$t/real" "$gitdir/index.lock" && mv -f "$gitdir/index.lock" "$gitdir/index" || fail the index
(cd "$gitdir" && rm -rf MERGE_HEAD MERGE_MSG MERGE_MODE SQUASH_MSG CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD BISECT_START BISECT_LOG BISECT_NAMES BISECT_TERMS BISECT_EXPECTED_REV rebase-merge rebase-apply sequencer)
if [ "$3" != "$NONE" ]; then
	GIT_INDEX_FILE="$t/state"
	git read-tree "$REST:state" && GIT_WORK_TREE=$gitdir git checkout-index -a -f || fail the state of what was interrupted
fi
echo done
`
