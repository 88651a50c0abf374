package setup

import (
	"context"
	"errors"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/policy/registries"
	"agentbox/vmm/image"
)

// open is a Registries with one open question.
type open struct {
	Registries
	skipped int
}

func (o *open) OpenQuestions(context.Context, []string) []registries.Question {
	return []registries.Question{{Ecosystem: "npm"}}
}

func (o *open) SkipQuestions(q []registries.Question) { o.skipped += len(q) }

// A question that could not be asked is skipped for as long as the daemon runs. One that a user
// interrupted could have been.
func TestInterruptSkipsNoQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		err     error // of the clean box
		stop    bool
		skipped int
	}{
		"interrupted": {context.Canceled, true, 0},
		"no box":      {errors.New("there is no room"), false, 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := &open{}
		s := New(Config{Registries: o})
		s.askRegistries(ctx, Request{Config: &config.Config{}, Empty: func(context.Context, image.Image, agentbox.Progress) (CleanBox, error) {
			if c.stop {
				cancel()
			}
			return CleanBox{}, c.err
		}}, image.Image{}, true, nil)
		if o.skipped != c.skipped {
			t.Errorf("%s: %d questions are skipped", name, o.skipped)
		}
	}
}
