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

// recordEvery is how much a killed daemon forgets of who sent what of an image.
const recordEvery = 2 * time.Second

// recordPeriodically records who sends the image, until the completion ends.
func (c *completion) recordPeriodically() {
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return // drop records the rest
		case <-tick.C:
			c.recordReceived()
			if c.isComplete() {
				return
			}
		}
	}
}

func (c *completion) isComplete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.complete
}

// recordReceived records who sent the image so far, including earlier completions, so that the sum
// covers all daemons.
func (c *completion) recordReceived() {
	c.recording.Lock()
	defer c.recording.Unlock()
	list := c.Received()
	sum := totalBytes(list)
	if sum == c.recorded {
		return
	}
	err := c.images.Store.SetReceived(c.img.Digest, c.received(list))
	if err == nil {
		c.recorded = sum
	} else if !errors.Is(err, os.ErrNotExist) { // the image is being removed
		c.images.Log.Warn("cannot record who sent an image", "image", c.img.Digest.Short(), "error", err)
	}
}

func (c *completion) received(now []image.Received) []image.Received {
	return image.AddReceived(slices.Clone(c.receivedBefore), now...)
}

func totalBytes(list []image.Received) int64 {
	sum := int64(0)
	for _, r := range list {
		sum += r.Bytes
	}
	return sum
}

// receivedOf says who sent the bytes of an image, including those that are not recorded yet.
func (i *Images) receivedOf(d agentbox.Digest) []image.Received {
	f := i.completions.share(d)
	if f == nil {
		return i.Store.Received(d)
	}
	defer f.release()
	return f.received(f.Received())
}

// Show says who made an image, and who sent how much of it. The parts add up to its size, except
// for blocks that came twice. The rest was made here, if the image is this machine's; else it was
// empty or here in other images.
func (i *Images) Show(_ context.Context, req api.ImageRef, _ agentbox.Progress) (api.ImageDetail, error) {
	img, err := i.Store.Get(req.Image)
	if err != nil {
		return api.ImageDetail{}, err
	}
	out := api.ImageDetail{Image: i.Describe(img), Maker: img.Origin, BaseMakers: img.BaseMakers, Base: img.Base, Manifest: img.Manifest, Received: []api.ImageReceived{}}
	here := img.Size
	if img.Lazy != nil {
		here = out.Present
	}
	out.Missing = img.Size - here
	list := i.receivedOf(img.Digest)
	for _, r := range list {
		out.Received = append(out.Received, api.ImageReceived{Peer: r.Peer, Remote: r.Remote, Bytes: r.Bytes})
	}
	slices.SortStableFunc(out.Received, func(a, b api.ImageReceived) int { return int(min(1, max(-1, b.Bytes-a.Bytes))) })
	// A block that arrived damaged was sent twice.
	if rest := max(0, here-totalBytes(list)); img.Lazy == nil && len(list) == 0 && img.Origin == "" {
		out.Made = rest
	} else {
		out.Local = rest
	}
	return out, nil
}
