package consent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/task/agents"
)

// A profile that the repository brings is run when a person has approved all of it, and boxes are
// made without.
func TestRepositoryAgentNeedsApproval(t *testing.T) {
	dir := repository(t)
	m := newTestApprovals(t)
	ref := api.PolicyRef{BoxRef: api.BoxRef{Directory: dir}}
	bring := func(text string) {
		t.Helper()
		path := filepath.Join(dir, agents.InRepository, "ours.yaml")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	find := func() (agents.Profile, error) {
		return m.Agent(t.Context(), dir, config.Place{Directory: dir}, "ours", nil)
	}
	approve := func(err error) {
		t.Helper()
		hint := agentbox.AsError(err).Hint
		digest := hint[strings.LastIndexByte(hint, ' ')+1:]
		if _, err := m.policies.Approve(t.Context(), api.ApproveRequest{PolicyRef: ref, Digest: digest}, nil); err != nil {
			t.Fatalf("%s: %v", hint, err)
		}
	}
	bring("program: ours\nhosts: [https://api.example.com]\n")
	_, err := find()
	if agentbox.CodeOf(err) != agentbox.Conflict {
		t.Fatalf("nobody has approved it: %v", err)
	}
	cfg, configErr := config.Load(t.Context(), dir)
	if configErr != nil {
		t.Fatal(configErr)
	}
	if _, err := m.Ask(t.Context(), dir, cfg, flags.Flags{}, func(agentbox.Event) {}); err != nil {
		t.Errorf("no box is made: %v", err)
	}
	approve(err)
	if p, err := find(); err != nil || p.Program != "ours" || p.Origin != agents.Repository {
		t.Errorf("approved: %+v %v", p, err)
	}
	bring("program: ours\n") // less
	if _, err := find(); err != nil {
		t.Errorf("one that asks for less: %v", err)
	}
	bring("program: ours\nhosts: [https://api.example.com, https://evil.example]\n")
	if _, err := find(); agentbox.CodeOf(err) != agentbox.Conflict || !strings.Contains(err.Error(), `reaches "https://evil.example"`) {
		t.Errorf("one that asks for more: %v", err)
	}
	if p, err := m.Agent(t.Context(), dir, config.Place{Directory: dir}, "claude", nil); err != nil || p.Origin != agents.BuiltIn {
		t.Errorf("one that is built in: %+v %v", p, err)
	}
}
