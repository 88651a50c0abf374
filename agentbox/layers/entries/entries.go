// Package entries is the store as its user sees it: what it keeps and why, verified, collected,
// pinned, shared. It finds what a person means by a reference, and decides what may be removed by
// hand; how bytes are kept is cachestore's business, what they are is package layers'.
package entries

import (
	"context"
	"encoding/hex"
	"maps"
	"net/http"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/layers"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
)

// Entries answers the calls of `agentbox cache`. It is a view without state.
type Entries struct {
	// Store returns the store, waiting until it is open.
	Store   func(ctx context.Context) (*cachestore.Store, error)
	Sharing *layers.Sharing
	Remotes *layers.Remotes // are asked for what is damaged
}

// Handle registers the calls.
func (es Entries) Handle(mux *http.ServeMux) {
	api.Handle(mux, api.ListCache, es.List)
	api.Handle(mux, api.ShowCache, es.Show)
	api.Handle(mux, api.VerifyCache, es.Verify)
	api.Handle(mux, api.CollectCache, es.Collect)
	api.Handle(mux, api.PinCache, es.Pin)
	api.Handle(mux, api.UnpinCache, es.Unpin)
	api.Handle(mux, api.ShareCache, es.Share)
	api.Handle(mux, api.RemoveCache, es.Remove)
	api.Handle(mux, api.CacheQuota, es.Quota)
}

// List lists the blobs of the store, with the alarms about each.
func (es Entries) List(ctx context.Context, _ api.None, _ agentbox.Progress) ([]api.CacheEntry, error) {
	s, err := es.Store(ctx)
	if err != nil {
		return nil, err
	}
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	alarms, err := s.Alarms()
	out := []api.CacheEntry{}
	for _, e := range list {
		entry, err := es.apiEntry(ctx, e, alarms)
		if err != nil {
			return nil, err
		}
		out = append(out, entry)
	}
	return out, err
}

// apiEntry is convertEntry with the sharing state added, which depends on the kind of entry and on
// the user's choice for it. See layers.Sharing.
func (es Entries) apiEntry(ctx context.Context, e cachestore.Entry, alarms []cachestore.Alarm) (api.CacheEntry, error) {
	out := convertEntry(e, alarms)
	var err error
	out.Shared, err = es.Sharing.IsShared(ctx, e.Manifest, e.Names)
	return out, err
}

// convertEntry converts an entry of the store to its API form. An alarm belongs to the entry that
// was kept when another result for its name was refused.
func convertEntry(e cachestore.Entry, alarms []cachestore.Alarm) api.CacheEntry {
	out := api.CacheEntry{
		Manifest: e.Manifest, Kind: string(e.Kind), MediaType: e.MediaType, Size: e.Size, Stored: e.Charged,
		Created: e.Created, Used: e.Used, Uses: e.Uses, Pins: e.Pins,
	}
	for _, n := range e.Names {
		out.Names = append(out.Names, api.CacheName{
			Namespace: n.Namespace, Key: n.Key, Producer: hex.EncodeToString(n.Producer), Scope: string(n.Scope),
			Created: n.Created, Expires: n.Expires, Comment: n.Comment,
		})
	}
	for _, a := range alarms {
		if a.Kept.Manifest == e.Manifest {
			out.Alarms = append(out.Alarms, api.CacheAlarm{
				Name: a.Lost.Namespace + "/" + a.Lost.Key, Manifest: a.Lost.Manifest, Producer: hex.EncodeToString(a.Lost.Producer), Created: a.Lost.Created,
			})
		}
	}
	return out
}

// Show returns one entry, with how much of it is here and what its key was computed from.
func (es Entries) Show(ctx context.Context, req api.CacheRef, _ agentbox.Progress) (api.CacheDetail, error) {
	s, e, err := es.find(ctx, req.Ref)
	if err != nil {
		return api.CacheDetail{}, err
	}
	m, err := s.Manifest(ctx, e.Manifest)
	if err != nil {
		return api.CacheDetail{}, err
	}
	p, err := s.Presence(m)
	if err != nil {
		return api.CacheDetail{}, err
	}
	alarms, err := s.Alarms()
	if err != nil {
		return api.CacheDetail{}, err
	}
	entry, err := es.apiEntry(ctx, e, alarms)
	if err != nil {
		return api.CacheDetail{}, err
	}
	why, err := es.keyInputs(ctx, e)
	return api.CacheDetail{
		CacheEntry: entry, Chunks: p.Chunks, Present: p.Present, Parent: m.Parent, Trace: len(m.Trace), File: e.Whole, Ingredients: why,
	}, err
}

// keyInputs lists what the key of an entry was computed from, as lines for people. It returns
// nothing for an entry without such a key.
func (es Entries) keyInputs(ctx context.Context, e cachestore.Entry) ([]string, error) {
	for _, n := range e.Names {
		if key, ok := layers.KeyOf(n); ok {
			made, err := layers.SetupResults{Store: es.Store}.Find(ctx, key)
			return made.Ingredients.Describe(), err
		}
	}
	return nil, nil
}

// Verify reads and hashes the whole store. It repairs damage from the remote in the request,
// then from the configured remotes, including the team.
func (es Entries) Verify(ctx context.Context, req api.CacheVerifyRequest, progress agentbox.Progress) (api.CacheVerifyReport, error) {
	s, err := es.Store(ctx)
	if err != nil {
		return api.CacheVerifyReport{}, err
	}
	var from []string
	if req.From != "" {
		from = append(from, req.From)
	}
	r, err := s.Verify(ctx, cachestore.VerifyOptions{Rebuild: req.Rebuild, Source: es.Remotes.Source(from...), Progress: func(done, total int64) {
		progress.Update("verify", "", done, total)
	}})
	out := api.CacheVerifyReport{
		Chunks: r.Chunks, Bytes: r.Bytes, Repaired: r.Repaired, Lost: r.Lost, Took: r.Took,
		Damaged: []api.CacheDamage{}, Missing: []api.CacheIncomplete{},
	}
	for _, x := range r.Damaged {
		out.Damaged = append(out.Damaged, api.CacheDamage{Digest: x.Digest, File: x.File, Offset: x.Offset, Reason: x.Why, Found: x.Found})
	}
	for _, x := range r.Missing {
		out.Missing = append(out.Missing, api.CacheIncomplete(x))
	}
	return out, err
}

// Collect frees space, or with DryRun reports what would be freed. It computes what remains
// above the quota from the usage afterwards, and in a dry run by subtraction.
func (es Entries) Collect(ctx context.Context, req api.CacheGCRequest, _ agentbox.Progress) (api.CacheGCReport, error) {
	s, err := es.Store(ctx)
	if err != nil {
		return api.CacheGCReport{}, err
	}
	r, err := s.GC(ctx, cachestore.GCOptions{DryRun: req.DryRun, All: req.All})
	if err != nil {
		return api.CacheGCReport{}, err
	}
	out := api.CacheGCReport{Items: []api.PruneItem{}, Freed: r.Freed, Recent: r.Recent}
	for _, item := range r.Items {
		out.Items = append(out.Items, api.PruneItem(item))
	}
	u, err := s.Usage(ctx)
	// Nothing was freed, so subtract what would have been.
	if req.DryRun {
		u.Bytes -= r.Freed
	}
	if u.Quota.Total > 0 {
		out.OverQuota = max(0, u.Bytes-u.Quota.Total)
	}
	return out, err
}

// userPin returns the name of a pin that a user made. Pins that agentbox makes have other names, so
// that a user cannot remove them by unpinning.
func userPin(d agentbox.Digest) string { return "user:" + d.Hex() }

// Pin keeps an entry until it is unpinned. Pinning twice has no further effect.
func (es Entries) Pin(ctx context.Context, req api.CacheRef, _ agentbox.Progress) (api.CacheEntry, error) {
	return es.changeEntry(ctx, req.Ref, func(s *cachestore.Store, m agentbox.Digest) error { return s.Pin(ctx, userPin(m), m) })
}

// Unpin removes the pin of Pin, and no other.
func (es Entries) Unpin(ctx context.Context, req api.CacheRef, _ agentbox.Progress) (api.CacheEntry, error) {
	return es.changeEntry(ctx, req.Ref, func(s *cachestore.Store, m agentbox.Digest) error { return s.Unpin(userPin(m)) })
}

// changeEntry changes the entry that ref means and returns it as it is afterwards. It looks the
// entry up again by its manifest, because its names may have changed.
func (es Entries) changeEntry(ctx context.Context, ref string, change func(s *cachestore.Store, m agentbox.Digest) error) (api.CacheEntry, error) {
	s, e, err := es.find(ctx, ref)
	if err != nil {
		return api.CacheEntry{}, err
	}
	if err := change(s, e.Manifest); err != nil {
		return api.CacheEntry{}, err
	}
	// Look the new state up instead of computing it.
	if _, e, err = es.find(ctx, e.Manifest.String()); err != nil {
		return api.CacheEntry{}, err
	}
	alarms, err := s.Alarms()
	if err != nil {
		return api.CacheEntry{}, err
	}
	return es.apiEntry(ctx, e, alarms)
}

// Share sets whether the team's machines may fetch an entry from here. They keep what they
// already have. An entry that is shared again is offered again at once.
func (es Entries) Share(ctx context.Context, req api.CacheShareRequest, _ agentbox.Progress) (api.CacheEntry, error) {
	return es.changeEntry(ctx, req.Ref, func(_ *cachestore.Store, m agentbox.Digest) error { return es.Sharing.Share(m, req.Share) })
}

// Remove removes an entry with its names, the alarms about them, and its bytes. A setup result
// is made again when it is needed.
func (es Entries) Remove(ctx context.Context, req api.CacheRef, _ agentbox.Progress) (api.CacheEntry, error) {
	s, e, err := es.find(ctx, req.Ref)
	if err != nil {
		return api.CacheEntry{}, err
	}
	// Someone pinned the entry so that it stays.
	if len(e.Pins) > 0 {
		return api.CacheEntry{}, agentbox.Errorf(agentbox.Conflict, "%s is pinned", e.Manifest.Short()).WithHint("agentbox cache unpin %s first", e.Manifest.Short())
	}
	// An entry that is named as an image is removed by `image rm`, which checks for boxes that run
	// from it.
	for _, n := range e.Names {
		if image, ok := layers.ImageOf(n); ok {
			return api.CacheEntry{}, agentbox.Errorf(agentbox.Conflict, "%s is image %s", e.Manifest.Short(), image.Short()).WithHint("agentbox image rm %s", image.Short())
		}
	}
	for _, n := range e.Names {
		if err := s.Unpublish(n.Namespace, n.Key); err != nil && agentbox.CodeOf(err) != agentbox.NotFound {
			return api.CacheEntry{}, err
		}
	}
	// Only this entry; everything else is collected on its own schedule.
	_, err = s.GC(ctx, cachestore.GCOptions{Drop: []agentbox.Digest{e.Manifest}})
	return convertEntry(e, nil), err
}

// Quota returns the usage and the quota of the store. If the request names bounds, it changes
// them first.
func (es Entries) Quota(ctx context.Context, req api.CacheQuotaRequest, _ agentbox.Progress) (api.CacheUsage, error) {
	s, err := es.Store(ctx)
	if err != nil {
		return api.CacheUsage{}, err
	}
	u, err := s.Usage(ctx)
	// A request without bounds only reads the quota.
	if err == nil && (req.Total != nil || len(req.Kinds) > 0) {
		if err = s.SetQuota(applyQuota(u.Quota, req)); err == nil {
			u, err = s.Usage(ctx)
		}
	}
	if err != nil {
		return api.CacheUsage{}, err
	}
	out := api.CacheUsage{
		Bytes: u.Bytes, Manifests: u.Manifests, Free: u.Free, Quota: u.Quota.Total,
		Kinds: map[string]int64{}, KindQuotas: map[string]int64{},
	}
	for kind, n := range u.Kinds {
		out.Kinds[string(kind)] = n
	}
	for kind, n := range u.Quota.Kinds {
		out.KindQuotas[string(kind)] = n
	}
	return out, nil
}

// applyQuota returns a quota with the bounds of a request applied. 0 lifts the bound of a kind.
// An unknown kind stays in it, so that the store refuses it by name.
func applyQuota(old cachestore.Quota, req api.CacheQuotaRequest) cachestore.Quota {
	q := cachestore.Quota{Total: old.Total, Kinds: map[blob.Kind]int64{}}
	maps.Copy(q.Kinds, old.Kinds)
	if req.Total != nil {
		q.Total = *req.Total
	}
	for kind, n := range req.Kinds {
		q.Kinds[blob.Kind(kind)] = n
		if n == 0 && blob.Kind(kind).Valid() {
			delete(q.Kinds, blob.Kind(kind))
		}
	}
	return q
}
