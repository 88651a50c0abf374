package snapshot

import (
	"context"
	"slices"
	"strings"
)

// stashRef names the newest stash. Its reflog has the others: git knows no more of them than that.
const stashRef = "refs/stash"

// restoreStashes stacks stashes, of which the first is the newest, under the subjects of their commits.
func restoreStashes(ctx context.Context, stashes []Branch, to mirror) error {
	for _, b := range slices.Backward(stashes) {
		subject, err := to.git(ctx, nil, "log", "-1", "--no-show-signature", "--format=%s", b.Commit)
		if err == nil {
			_, err = to.git(ctx, nil, "update-ref", "--create-reflog", "-m", strings.TrimSpace(subject), stashRef, b.Commit)
		}
		if err != nil {
			return mirrorError(err)
		}
	}
	return nil
}

// stashes are the commits of the workspace's stashes, the newest first.
func (d Document) stashes() (all []string) {
	for _, o := range d.Others {
		if o.Name == stashRef && o.Path == "" {
			all = append(all, o.Commit)
		}
	}
	return all
}

// restack makes the stashes of the repository those of STASHES, the newest first, where the newest is
// still OLDSTASH.
const restack = `
if [ "$STASHED" ]; then
	[ "$(git rev-parse -q --verify refs/stash)" = "$OLDSTASH" ] || fail the stashes are others by now
	[ -z "$OLDSTASH" ] || git update-ref -d refs/stash "$OLDSTASH" || fail the stashes
	restacked=
	for id in $STASHES; do restacked="$id $restacked"; done
	for id in $restacked; do
		git stash store -m "$(git log -1 --format=%s "$id")" "$id" 2>"$t/why" || fail "$(head -n 1 "$t/why")"
	done
fi
`
