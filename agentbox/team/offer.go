package team

import (
	"context"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/layers"
	"agentbox/mesh/catalogue"
	"agentbox/vmm/image"
)

// What this machine offers at most: the newest. With their names the records must stay within
// catalogue.MaxBytes.
const (
	mostImages   = 300
	mostSetups   = 500
	mostMachines = 200 // templates and kernels
)

// offer makes the catalogue say what the team may have of this machine. What cannot be told keeps
// nothing else back (fits).
func (t *Team) offer(ctx context.Context) error {
	_, c := t.catalogues()
	if c == nil {
		return nil
	}
	t.offering.Lock() // an older list must not take back what a newer one has
	defer t.offering.Unlock()
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
	// The newest first, as lists are cut at their end.
	slices.SortFunc(offers, func(a, b layers.Offer) int { return b.Name.Created.Compare(a.Name.Created) })
	var images, setups, machines []catalogue.Record
	for _, o := range offers {
		img, isImage := files[o.Image]
		switch {
		case isImage && len(images) < mostImages:
			if r, err := t.imageRecord(ctx, o, img); t.fits(ctx, r, err) {
				images = append(images, r)
			}
		case !o.Key.IsZero() && len(setups) < mostSetups:
			if r, err := setupRecord(o); t.fits(ctx, r, err) {
				setups = append(setups, r)
			}
		case o.Template+o.Kernel != "" && len(machines) < mostMachines:
			if r, err := archiveRecord(o); t.fits(ctx, r, err) {
				machines = append(machines, r)
			}
		}
	}
	// One change for all kinds: others see all of it, or none.
	return c.Update(func(e *catalogue.Edit) {
		e.Replace(catalogue.Image, images)
		e.Replace(catalogue.Setup, setups)
		for _, k := range []catalogue.Kind{catalogue.Template, catalogue.Kernel} {
			e.Replace(k, slices.DeleteFunc(slices.Clone(machines), func(r catalogue.Record) bool { return r.Kind != k }))
		}
	})
}

// imageRecord is the line of an image: found by its digest, and by the key of what it was made
// from.
func (t *Team) imageRecord(ctx context.Context, o layers.Offer, img image.Image) (catalogue.Record, error) {
	about, err := t.Images.About(ctx, img)
	if err != nil {
		return catalogue.Record{}, err
	}
	name, err := o.Name.Encode()
	return catalogue.Record{
		Kind: catalogue.Image, Key: img.Digest.Hex(), Alias: img.Key, Manifest: o.Name.Manifest, About: about, Size: img.Size, Name: name, Text: o.Name.Comment,
	}, err
}

// setupRecord is the line of a setup result. A comment that is too long is left out, as it is for
// people.
func setupRecord(o layers.Offer) (catalogue.Record, error) {
	name, err := o.Name.Encode()
	text := o.Name.Comment
	if len(text) > catalogue.MaxText {
		text = ""
	}
	return catalogue.Record{Kind: catalogue.Setup, Key: o.Name.Key, Alias: o.Key.Hex(), Manifest: o.Name.Manifest, Name: name, Text: text}, err
}

// fits tells whether a record can be offered. One that cannot keeps none of the others back.
func (t *Team) fits(ctx context.Context, r catalogue.Record, err error) bool {
	if err == nil {
		err = r.Check()
	}
	if err != nil && ctx.Err() == nil {
		t.Log.Warn("team: not offered", "kind", r.Kind, "key", r.Key, "error", err)
	}
	return err == nil
}
