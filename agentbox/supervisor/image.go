package supervisor

import (
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/vmm/partial"
)

// openImage makes the machine read an image that is not all here: what is missing is asked of the
// daemon, again and again, whichever daemon serves the home by then. A machine that asks for what
// nobody gives stands still and goes on when somebody does.
func (s *Supervisor) openImage() error {
	if s.cfg.Image == nil {
		return nil
	}
	client := api.NewClient(home.Home{Dir: s.cfg.Home}.Socket())
	f, err := partial.Open(s.cfg.Image.Image, func(ctx context.Context, block int) (agentbox.Blocks, error) {
		return s.needBlock(ctx, client, block)
	})
	if err != nil {
		return err
	}
	s.image, s.cfg.Spec.Blocks = f, f
	return nil
}

// askPatience is the longest between two questions for the same block: the daemon may have been
// replaced meanwhile. It is how late a machine notices that its bytes can be had again.
const askPatience = 2 * time.Second

// needBlock asks the daemon for a block until it has it or ctx ends. What it gets is the map of
// blocks that may be read from the image's file then. It is logged when it begins to wait, and when
// the reason is another than that no daemon answers.
func (s *Supervisor) needBlock(ctx context.Context, client *api.Client, block int) (have agentbox.Blocks, err error) {
	req, told := api.ImageNeed{Box: s.cfg.Box, Image: s.cfg.Image.Digest, Block: block}, false
	err = partial.Retry(ctx, askPatience, func() (err error) {
		have, err = api.Call(ctx, client, api.NeedImage, req, nil)
		return err
	}, func(err error) bool {
		if !told || agentbox.CodeOf(err) != agentbox.Unavailable {
			s.log.Warn("the machine waits for its image", "block", block, "error", err)
		}
		told = true
		return true
	})
	return have, err
}

// imageLate is how long a read may wait for bytes before the guest is not expected to answer.
const imageLate = time.Second

// stalled tells whether the machine may stand still for want of its image. Such a machine cannot be
// saved, and its silence means nothing.
func (s *Supervisor) stalled() bool { return s.image != nil && s.image.Waiting() > imageLate }
