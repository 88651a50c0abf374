package host

import (
	"context"

	"agentbox/agentbox/api"
	"agentbox/agentbox/host/consent"
	"agentbox/agentbox/host/plan"
)

// lookUpParts looks for what a new box would start from, as far as it is known before anything is
// made, for `up --explain`. An image that has to be made has no digest yet, so nothing that builds
// on it can be looked for; whether included files have changed is only known when the image is
// made. Nor is a template looked for: its key needs the guest kernel, which may have to be fetched.
// The steps look again for what found does not find.
func (m *Manager) lookUpParts(ctx context.Context, u *creation, p plan.Plan) (f plan.Found) {
	img, ok := m.Images.FindBase(consent.RecipeOf(u.Config))
	if f.Image = presence(ok); !ok || len(u.Config.Include) > 0 {
		return f
	}
	u.Config = ofImage(img).With(u.Config)
	u.rec.Box.Project = u.Review.Project.Name
	u.rec.applyConfig(u.Config, u.Kind, img)
	if p.Has(api.UpTools) {
		img, ok = m.setup.FindTools(ctx, u.Config.Toolchain, u.rec.Overrides.Tools, img)
		if f.Tools = presence(ok); !ok {
			return f
		}
		u.rec.startFrom(img)
	}
	if u.SetupOnce() {
		f.Setup = presence(m.setup.Has(ctx, m.setupOf(u.rec, u.Config), img))
	}
	return f
}

// presence is a plan's word for whether something is here.
func presence(is bool) string {
	if is {
		return api.UpPresent
	}
	return api.UpMissing
}
