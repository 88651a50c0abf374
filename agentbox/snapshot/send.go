package snapshot

import (
	"context"
	"io"
	"path/filepath"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/workspace"
)

// Send writes a git pack of kept work, without what its base has.
func Send(ctx context.Context, kept Kept, w io.Writer) error {
	m := mirror{kept.Mirror}
	has, err := m.has(ctx, kept.Base)
	if err != nil {
		return err
	}
	base := ""
	if has[kept.Base] {
		base = kept.Base
	}
	return m.packWork(ctx, w, kept.tips(), exists(filepath.Join(m.dir, promised)), base)
}

// tips are the commits that were kept.
func (k Kept) tips() []string {
	tips := []string{k.Commit}
	for _, b := range k.OtherRefs {
		tips = append(tips, b.Commit)
	}
	return tips
}

// Receive takes work that another machine kept and sent (Send) into the mirror at dir, after git has
// checked each object. kept and pack are that machine's words: nothing of them is believed. The base
// comes from the checkout. Errors: Corrupt for a pack that git refuses or names that are none,
// Conflict for a checkout without the base.
func Receive(ctx context.Context, dir string, repo workspace.Repo, kept Kept, pack io.Reader) (Kept, error) {
	digits := len(kept.Commit)
	odd := func(id string) bool { return !isObject(id, digits) }
	if digits != 40 && digits != 64 || slices.ContainsFunc(kept.tips(), odd) || kept.Base != "" && odd(kept.Base) {
		return kept, agentbox.Errorf(agentbox.Corrupt, "what the other machine sent does not name commits")
	}
	k := keepRun{req: Request{Mirror: dir, Base: kept.Base, Checkout: repo.Root, Limit: DefaultLimit}}
	if err := k.prepare(ctx); err != nil {
		return kept, err
	}
	has, err := k.mirror.has(ctx, kept.Base)
	if err != nil {
		return kept, err
	}
	if kept.Base != "" && !has[kept.Base] {
		return kept, agentbox.Errorf(agentbox.Conflict, "this repository does not have commit %.12s, with which the box began", kept.Base).
			WithHint("run it in the checkout that the box was made from, or git fetch first")
	}
	kept.Mirror = k.mirror.dir
	return kept, k.accept(ctx, pack, facts{trees: []tree{{top: kept.Commit}}, own: kept.OtherRefs})
}

// Adopt gives work that was received (Receive) its refs: ref in the mirror and in the checkout
// exportTo, and those of what is beside it.
func Adopt(ctx context.Context, kept Kept, ref, exportTo string) (Kept, error) {
	k := keepRun{req: Request{Ref: ref, Base: kept.Base, ExportTo: exportTo}, mirror: mirror{kept.Mirror}, kept: kept}
	k.kept.Ref, k.kept.Whole, k.kept.Head, k.kept.OtherRefs = ref, kept.Commit, kept.Commit, nil
	if err := k.setRefs(ctx, facts{trees: []tree{{top: kept.Commit}}, own: kept.OtherRefs}); err != nil {
		return kept, err
	}
	if err := k.count(ctx); err != nil {
		return kept, err
	}
	k.export(ctx)
	return k.kept, nil
}
