package consent

import (
	"context"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/project"
	"agentbox/agentbox/task/agents"
	"agentbox/policy"
)

// Agent finds the profile of an agent for boxes of a checkout. Each line of a profile that the
// repository brings has to be approved, again after any change. Conflict for one that waits for
// approval; NotFound for an unknown name.
func (a Approvals) Agent(ctx context.Context, root string, at config.Place, name string, environ []string) (agents.Profile, error) {
	profile, err := a.profiles(root).Find(name)
	if err != nil || profile.Origin != agents.Repository {
		return profile, err
	}
	review, err := a.ReviewDirectory(ctx, root, at, environ)
	if err != nil {
		return profile, err
	}
	for _, line := range profile.Asks() {
		waits := slices.ContainsFunc(review.Plan, func(c policy.Change) bool { return c.Add && c.Kind == askAgent && c.Rule == line })
		if waits || !slices.Contains(review.Proposed.Host, project.Ask{What: askAgent, Which: line}) {
			return profile, agentbox.Errorf(agentbox.Conflict, "agent %s comes from the repository and is not approved: %s", name, line).
				WithHint("agentbox policy show shows all that it asks for; to approve it: agentbox policy approve %s", review.Digest)
		}
	}
	return profile, nil
}

// profiles are the agents of a checkout's boxes: built in, the user's, the repository's.
func (a Approvals) profiles(root string) agents.Dirs {
	return agents.Dirs{User: a.Agents, Repository: root}
}
