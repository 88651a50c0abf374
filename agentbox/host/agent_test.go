package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/task/agents"
)

func TestInvalidProfileHidesNoOther(t *testing.T) {
	checkout := t.TempDir()
	if out, err := exec.Command("git", "-C", checkout, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	profiles := filepath.Join(checkout, agents.InRepository)
	if err := os.MkdirAll(profiles, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(profiles, "fixer.yaml"), []byte("program: ./fix.sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &Manager{home: home.Home{Dir: t.TempDir()}}
	all, err := m.ListAgents(t.Context(), api.PolicyRef{BoxRef: api.BoxRef{Directory: checkout}}, nil)
	found := map[string]string{}
	for _, one := range all {
		found[one.Name] = one.Description
	}
	if err != nil || found["claude"] == "" || !strings.Contains(found["fixer"], `fixer.yaml of agent fixer: program "./fix.sh"`) {
		t.Errorf("%v, %q", err, found)
	}
}
