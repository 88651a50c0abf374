package supervisor

import (
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/vmm/partial"
)

// Times between two questions for the same block.
const (
	askAgain    = 100 * time.Millisecond
	askPatience = 2 * time.Second
)

// openImage makes the machine read an image that is not all here: what is missing is asked of the
// daemon, again and again, whichever daemon serves the home by then. A machine that asks for what
// nobody gives stands still and goes on when somebody does.
func (s *Supervisor) openImage() error {
	if s.cfg.Image == nil {
		return nil
	}
	client := api.NewClient(home.Home{Dir: s.cfg.Home}.Socket())
	f, err := partial.Open(s.cfg.Image.Image, func(ctx context.Context, block int) (partial.Answer, error) {
		return s.needBlock(ctx, client, block)
	})
	if err != nil {
		return err
	}
	s.image, s.cfg.Spec.Blocks = f, f
	return nil
}

func (s *Supervisor) needBlock(ctx context.Context, client *api.Client, block int) (partial.Answer, error) {
	req := api.ImageNeed{Box: s.cfg.Box, Image: s.cfg.Image.Digest, Block: block}
	for wait := askAgain; ; wait = min(2*wait, askPatience) {
		answer, err := api.Call(ctx, client, api.NeedImage, req, nil)
		if err == nil {
			return partial.Answer(answer), nil
		}
		if ctx.Err() != nil {
			return partial.Answer{}, ctx.Err()
		}
		if wait == askAgain || agentbox.CodeOf(err) != agentbox.Unavailable {
			s.log.Warn("the machine waits for its image", "block", block, "error", err)
		}
		select {
		case <-ctx.Done():
			return partial.Answer{}, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// imageLate is how long a read may wait for bytes before the guest is not expected to answer.
const imageLate = time.Second

// stalled tells whether the machine may stand still for want of its image.
func (s *Supervisor) stalled() bool { return s.image != nil && s.image.Waiting() > imageLate }
