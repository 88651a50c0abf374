package team

import (
	"context"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/layers"
	"agentbox/mesh/catalogue"
	"agentbox/vmm/image"
)

// maxOffers bounds how many entries of each kind this machine offers; the newest win. The records
// and their names must fit into catalogue.MaxBytes.
var maxOffers = map[catalogue.Kind]int{catalogue.Image: 300, catalogue.Setup: 500, catalogue.Template: 180, catalogue.Kernel: 20}

// offer writes into the catalogue what the team may have from this machine. An entry that cannot be
// offered does not hold back the others (recordFits).
func (t *Team) offer(ctx context.Context) error {
	_, c := t.catalogues()
	if c == nil {
		return nil
	}
	t.offerMu.Lock() // so that an older list cannot overwrite a newer one
	defer t.offerMu.Unlock()
	offers, err := t.Sharing.Offers(ctx)
	if err != nil {
		return err
	}
	list, err := t.Files.List()
	if err != nil {
		return err
	}
	files := map[agentbox.Digest]image.Image{}
	for _, img := range list {
		files[img.Digest] = img
	}
	// Newest first, because the lists are cut at the end.
	slices.SortFunc(offers, func(a, b layers.Offer) int { return b.Name.Created.Compare(a.Name.Created) })
	records := map[catalogue.Kind][]catalogue.Record{}
	for _, o := range offers {
		img, isImage := files[o.Image]
		kind := kindOf(o, isImage)
		if len(records[kind]) == maxOffers[kind] {
			continue
		}
		if r, err := t.record(ctx, kind, o, img); t.recordFits(ctx, r, err) {
			records[kind] = append(records[kind], r)
		}
	}
	// All kinds change at once, so that others see all of the change or nothing.
	return c.Update(func(e *catalogue.Edit) {
		for k := range maxOffers {
			e.Replace(k, records[k])
		}
	})
}

// kindOf returns the kind of record under which o is offered, or "" if it is not offered.
func kindOf(o layers.Offer, isImage bool) catalogue.Kind {
	switch {
	case isImage:
		return catalogue.Image
	case !o.Key.IsZero():
		return catalogue.Setup
	case o.Kernel != "":
		return catalogue.Kernel
	case o.Template != "":
		return catalogue.Template
	}
	return ""
}

// record returns the catalogue record for o. An image is found by its digest and by the key of what
// it was made from, both taken from img. A comment that is too long is left out, since it is only
// for display.
func (t *Team) record(ctx context.Context, kind catalogue.Kind, o layers.Offer, img image.Image) (r catalogue.Record, err error) {
	r = catalogue.Record{Kind: kind, Manifest: o.Name.Manifest, Text: o.Name.Comment}
	if len(r.Text) > catalogue.MaxText {
		r.Text = ""
	}
	switch kind {
	case catalogue.Image:
		r.Key, r.Alias, r.Size = img.Digest.Hex(), img.Key, img.Size
		if r.About, err = t.Images.PutDescription(ctx, img); err != nil {
			return r, err
		}
	case catalogue.Setup:
		r.Key, r.Alias = o.Name.Key, o.Key.Hex()
	case catalogue.Template:
		r.Key = o.Template
	case catalogue.Kernel:
		arch, _, _ := layers.KernelOf(o.Name)
		r.Key, r.Alias = o.Kernel, arch
	}
	r.Name, err = o.Name.Encode()
	return r, err
}

// recordFits reports whether a record can be offered. It logs one that cannot, which does not hold
// back the others.
func (t *Team) recordFits(ctx context.Context, r catalogue.Record, err error) bool {
	if err == nil {
		err = r.Check()
	}
	if err != nil && ctx.Err() == nil {
		t.Log.Warn("team: not offered", "kind", r.Kind, "key", r.Key, "error", err)
	}
	return err == nil
}
