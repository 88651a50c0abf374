package supervisor

import (
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/vmm/lazyimage"
)

// openImage opens an image that is not completely on this host. The daemon is asked for missing
// blocks, again and again, whichever daemon serves the home by then. A machine that needs a block
// that nobody has stands still until somebody has it.
func (s *Supervisor) openImage() error {
	if s.cfg.Image == nil {
		return nil
	}
	client := api.NewClient(home.Home{Dir: s.cfg.Home}.Socket())
	f, err := lazyimage.Open(s.cfg.Image.Image, func(ctx context.Context, block int) (agentbox.Blocks, error) {
		return s.needBlock(ctx, client, block)
	})
	if err != nil {
		return err
	}
	s.image, s.cfg.Spec.Blocks = f, f
	return nil
}

// maxRetryDelay is the longest wait between two requests for the same block: the daemon may have
// been replaced meanwhile. It bounds how late a machine notices that its bytes are available again.
const maxRetryDelay = 2 * time.Second

// needBlock asks the daemon for a block until the block is here or ctx ends. It returns the map of
// blocks that may then be read from the image's file. It logs when the wait begins, and each reason
// other than that no daemon answers.
func (s *Supervisor) needBlock(ctx context.Context, client *api.Client, block int) (have agentbox.Blocks, err error) {
	req, logged := api.ImageNeed{Box: s.cfg.Box, Image: s.cfg.Image.Digest, Block: block}, false
	err = lazyimage.Retry(ctx, maxRetryDelay, func() (err error) {
		have, err = api.Call(ctx, client, api.NeedImage, req, nil)
		return err
	}, func(err error) bool {
		if !logged || agentbox.CodeOf(err) != agentbox.Unavailable {
			s.log.Warn("the machine waits for its image", "block", block, "error", err)
		}
		logged = true
		return true
	})
	return have, err
}

// stalledAfter is how long a read may wait for bytes before the guest is not expected to answer.
const stalledAfter = time.Second

// stalled tells whether the machine may be standing still because bytes of its image are missing.
// Such a machine cannot be saved, and its silence means nothing.
func (s *Supervisor) stalled() bool { return s.image != nil && s.image.Waiting() > stalledAfter }
