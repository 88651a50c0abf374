package team

import (
	"context"
	"slices"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
	"agentbox/vmm/image"
)

// dropRevoked lets go of what was made by members who are no builders any more, and of what was made
// from it. Their names are not believed from the moment the list says so; this frees the space, and
// keeps what was made here on their images from being used.
func (t *Team) dropRevoked(ctx context.Context) {
	m := t.mesh.Load()
	if m == nil {
		return
	}
	list, err := t.Files.List()
	if err != nil {
		t.Log.Error("team: cannot list the images", "error", err)
		return
	}
	gone := map[agentbox.Digest]bool{}
	for _, img := range list {
		if makers := makersOf(img); slices.ContainsFunc(makers, func(id identity.PeerID) bool { return !m.IsBuilder(id) }) {
			gone[img.Digest] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	names, err := t.Shelf.MadeOn(ctx, func(d agentbox.Digest) bool { return gone[d] })
	if err != nil {
		t.Log.Error("team: cannot look through what setup made", "error", err)
	}
	for _, n := range names {
		if err := t.Shelf.Drop(ctx, n); err != nil {
			t.Log.Error("team: what setup made on a revoked image stays", "name", n.Key, "error", err)
		}
	}
	for d := range gone {
		t.Gone(ctx, d)
	}
}

// makersOf are the members by whose word an image is what it is, besides us.
func makersOf(img image.Image) []identity.PeerID {
	var out []identity.PeerID
	for _, s := range append([]string{img.Origin}, img.Upon...) {
		if s == "" {
			continue
		}
		id, _ := identity.ParsePeer(s) // what is no PeerID is nobody's, and no builder's
		out = append(out, id)
	}
	return out
}
