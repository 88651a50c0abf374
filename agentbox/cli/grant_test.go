package cli

import (
	"slices"
	"testing"

	"agentbox/agentbox/api"
	"agentbox/agentbox/task/agents"
	"agentbox/policy"
)

// Hosts of a built-in agent must be granted once, however its profile writes the rules.
func TestAgentHostsAreGrantedOnce(t *testing.T) {
	for _, name := range []string{"aider", "claude", "codex", "gemini", "opencode", "qwen"} {
		profile, err := agents.Dirs{User: t.TempDir()}.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := missingRules(api.PolicyReport{}, profile.Hosts); !slices.Equal(got, profile.Hosts) {
			t.Errorf("%s: of %q is missing at first %q", name, profile.Hosts, got)
		}
		var granted policy.Layer
		for _, text := range profile.Hosts {
			r, err := policy.ParseRule(text)
			if err != nil {
				t.Fatal(err)
			}
			granted.Allow = append(granted.Allow, r)
		}
		if got := missingRules(api.PolicyReport{Layers: []policy.Layer{granted}}, profile.Hosts); len(got) != 0 {
			t.Errorf("%s: %q is granted again", name, got)
		}
	}
}
