package images

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/vmm/image"
)

// bookEvery is how often it is written down who sent what of an image that comes: a daemon that is
// killed forgets that much of it.
const bookEvery = 2 * time.Second

// book writes down from whom the image comes, until the completion ends.
func (f *completion) book() {
	tick := time.NewTicker(bookEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return // who dropped it notes the rest
		case <-tick.C:
			f.note()
			if f.isTaken() {
				return
			}
		}
	}
}

// isTaken tells whether the image is a plain file by now.
func (f *completion) isTaken() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken
}

// note writes down from whom the image came so far. What was there before this completion began is
// added, so that the sum is over all daemons that took part.
func (f *completion) note() {
	f.booking.Lock()
	defer f.booking.Unlock()
	list := f.Received()
	sum := sumOf(list)
	if sum == f.booked {
		return
	}
	err := f.room.Store.SetReceived(f.img.Digest, f.received(list))
	if err == nil {
		f.booked = sum
	} else if !errors.Is(err, os.ErrNotExist) { // the image is being removed
		f.room.Log.Warn("it cannot be written down from whom an image comes", "image", f.img.Digest.Short(), "error", err)
	}
}

// received is what came in this completion and those before.
func (f *completion) received(now []image.Received) []image.Received {
	return image.AddReceived(slices.Clone(f.before), now...)
}

// sumOf is how many bytes came, from all together.
func sumOf(list []image.Received) int64 {
	sum := int64(0)
	for _, r := range list {
		sum += r.Bytes
	}
	return sum
}

// receivedOf tells from whom the bytes of an image came, those of the last moments too.
func (i *Images) receivedOf(d agentbox.Digest) []image.Received {
	f := i.completions.share(d)
	if f == nil {
		return i.Store.Received(d)
	}
	defer f.release()
	return f.received(f.Received())
}

// Show tells where an image came from: who made it, and who sent how much of it. The parts add up
// to the image's size, but for blocks that came twice. What nobody sent was made here, for an image
// of this machine, and else was empty or here in other images.
func (i *Images) Show(_ context.Context, req api.ImageRef, _ agentbox.Progress) (api.ImageDetail, error) {
	img, err := i.Store.Get(req.Image)
	if err != nil {
		return api.ImageDetail{}, err
	}
	out := api.ImageDetail{Image: i.Describe(img), Maker: img.Origin, Upon: img.Upon, Base: img.Base, Manifest: img.Manifest, Received: []api.ImageReceived{}}
	here := img.Size
	if img.Lazy != nil {
		here = out.Here
	}
	out.Missing = img.Size - here
	list := i.receivedOf(img.Digest)
	for _, r := range list {
		out.Received = append(out.Received, api.ImageReceived{Peer: r.Peer, Remote: r.Remote, Bytes: r.Bytes})
	}
	slices.SortStableFunc(out.Received, func(a, b api.ImageReceived) int { return int(min(1, max(-1, b.Bytes-a.Bytes))) })
	// A block that was damaged and came again was sent twice.
	if rest := max(0, here-sumOf(list)); img.Lazy == nil && len(list) == 0 && img.Origin == "" {
		out.Made = rest
	} else {
		out.Local = rest
	}
	return out, nil
}
