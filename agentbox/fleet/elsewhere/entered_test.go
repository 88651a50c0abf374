package elsewhere

import (
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/fleet"
	"agentbox/mesh/identity"
)

// A box that was entered where it is has its name for the next daemon, too, and one name is one box.
func TestEnteredIsRemembered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "entered.json")
	first := BoxThere{fleet.BoxAt{Name: "0123456789ab", Peer: identity.PeerID{7}}, "app-main.one"}
	again := first
	again.Name = "ba9876543210"
	task := BoxThere{fleet.BoxAt{Task: agentbox.TaskID{1}, Attempt: 1}, "t-01000000"}
	now := &Boxes{File: file}
	for id, at := range []BoxThere{task, first, again} {
		if err := now.remember(agentbox.BoxID{byte(id)}, at); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string]*Boxes{"this": now, "the next": {File: file}} {
		if at, ok := b.of("app-main.one"); !ok || at != again {
			t.Errorf("%s daemon has %+v", name, at)
		}
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if at, ok := (&Boxes{File: file}).of("app-main.one"); ok {
		t.Errorf("%+v", at)
	}
}
