package host

import (
	"context"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/vmm/image"
)

// TaskImage is what a box would be made from, for a place that makes none.
type TaskImage struct {
	image.Image
	Env   map[string]string
	User  string
	Setup []string // commands that have not run
}

// ImageFor finds or makes the image of a box, its tools and its agent included, by the steps of Up that do
// that. It makes no box.
func ImageFor(ctx context.Context, m *Manager, req api.UpRequest, progress agentbox.Progress) (TaskImage, error) {
	u, release, err := m.read(ctx, req)
	if err != nil {
		return TaskImage{}, err
	}
	defer release()
	p, err := m.plan(ctx, u)
	if err != nil {
		return TaskImage{}, err
	}
	u.rec = u.newRecord("")
	for _, step := range p {
		if slices.Contains([]api.UpAction{api.UpApproval, api.UpImage, api.UpTools}, step.Action) {
			if err := m.do(ctx, u, step, progress); err != nil {
				return TaskImage{}, err
			}
		}
	}
	if u.img.Path == "" || u.img.Lazy != nil {
		return TaskImage{}, agentbox.Errorf(agentbox.Conflict, "the image is not completely here yet").WithHint("agentbox image ls says how much is missing")
	}
	return TaskImage{Image: u.img, Env: u.rec.Guest.Env, User: u.rec.User, Setup: u.rec.Setup}, nil
}
