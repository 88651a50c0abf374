package team

import (
	"context"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/layers"
	"agentbox/cachestore/blob"
	"agentbox/mesh"
	"agentbox/mesh/identity"
	"agentbox/vmm/image"
)

// dropRevoked drops what was made by members that are no longer builders, and what was made from
// it. Their names stop being believed when the member list changes. dropRevoked frees the space,
// and keeps results that were made here on their images from being used.
func (t *Team) dropRevoked(ctx context.Context) {
	m := t.mesh.Load()
	if m == nil {
		return
	}
	revoked, err := t.SetupResults.Revoked(ctx)
	if err != nil {
		t.Log.Error("team: cannot look through the store", "error", err)
	}
	list, err := t.Files.List()
	if err != nil {
		t.Log.Error("team: cannot list the images", "error", err)
		return
	}
	// Images come first, since what was made on them is dropped with them.
	gone, used := t.dropImages(ctx, m, list)
	t.dropMachines(ctx, gone)
	for _, n := range revoked {
		if d, ok := layers.ImageOf(n); ok && used[d] || !m.WasBuilder(identity.PeerOf(n.Producer)) {
			continue // a box reads it, or a membership has expired by the clock
		}
		t.drop(ctx, n)
	}
}

// dropMachines drops templates and kernels made by members that are not trusted, and templates of
// images that are gone for good. A template or kernel that a box needs stays, for that box only.
func (t *Team) dropMachines(ctx context.Context, gone map[agentbox.Digest]bool) {
	if t.DropMachines != nil {
		t.DropMachines(ctx, func(by string, image agentbox.Digest) bool { return gone[image] || t.IsRevoked(by) })
	}
	if len(gone) == 0 {
		return
	}
	names, err := t.archives().Templates(ctx)
	if err != nil {
		t.Log.Error("team: cannot look through the templates", "error", err)
	}
	for _, n := range names {
		if _, image, ok := layers.TemplateOf(n); ok && gone[image] {
			t.drop(ctx, n)
		}
	}
}

// dropImages drops images and the setup results that were made on them. It returns the images that
// were dropped, and those of them that a box still uses.
func (t *Team) dropImages(ctx context.Context, m *mesh.Mesh, list []image.Image) (gone, used map[agentbox.Digest]bool) {
	gone = map[agentbox.Digest]bool{}
	for _, img := range list {
		if makers := imageMakers(img); slices.ContainsFunc(makers, func(id identity.PeerID) bool { return m.WasBuilder(id) }) {
			gone[img.Digest] = true
		}
	}
	used = map[agentbox.Digest]bool{}
	if len(gone) == 0 {
		return gone, used
	}
	names, err := t.SetupResults.NamesByImage(ctx, func(d agentbox.Digest) bool { return gone[d] })
	if err != nil {
		t.Log.Error("team: cannot list setup results", "error", err)
	}
	for _, n := range names {
		t.drop(ctx, n)
	}
	for d := range gone {
		used[d] = !t.DropImage(ctx, d)
	}
	return gone, used
}

func (t *Team) drop(ctx context.Context, n blob.Name) {
	if err := t.SetupResults.Drop(ctx, n); err != nil {
		t.Log.Error("team: what a former builder made cannot be removed", "name", n.Namespace+"/"+n.Key, "error", err)
	}
}

// imageMakers returns the members, other than us, whose statements determine an image.
func imageMakers(img image.Image) []identity.PeerID {
	var out []identity.PeerID
	for _, s := range append([]string{img.Origin}, img.BaseMakers...) {
		if s == "" {
			continue
		}
		id, _ := identity.ParsePeer(s) // text that is no PeerID belongs to no builder
		out = append(out, id)
	}
	return out
}
