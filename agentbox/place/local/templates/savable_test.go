package templates

import (
	"context"
	"os"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/vmm"
)

// A box that was booted cannot be saved, and its user is told what makes it like other boxes.
func TestBootedMachineIsNotSavable(t *testing.T) {
	all := Templates{Config: Config{Driver: func(agentbox.Isolation) (vmm.Driver, error) { return booting{}, nil }}}
	err := all.CheckSavable(t.Context(), Machine{Box: "mine"}, "", "paused")
	if e := agentbox.AsError(err); agentbox.CodeOf(err) != agentbox.Conflict || !strings.Contains(e.Message, "box mine cannot be paused") || !strings.Contains(e.Hint, "agentbox reset mine") {
		t.Errorf("%+v", err)
	}
}

// booting is a driver whose machines boot, and are saved without a template.
type booting struct {
	vmm.Driver
	vmm.Snapshotter
	fingerprint string
}

func (b booting) Fingerprint(context.Context, vmm.Spec) (string, error) { return b.fingerprint, nil }

// A kind without templates needs none: what is saved fits machines of the same key and no others.
func TestKindWithoutTemplates(t *testing.T) {
	driver := booting{fingerprint: "now"}
	all := newTemplates(t, &fakeTeam{files: saved()})
	all.Driver = func(agentbox.Isolation) (vmm.Driver, error) { return driver, nil }
	key, got, err := all.Open(t.Context(), some, nil)
	if err != nil || got != nil || key == "" {
		t.Fatalf("%q, %v, %v", key, got, err)
	}
	if left, err := os.ReadDir(all.Home.Templates()); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if got, err := all.OpenKey(t.Context(), some, key); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
	if err := all.CheckSavable(t.Context(), some, key, "paused"); err != nil {
		t.Error(err)
	}
	driver.fingerprint = "of the next version"
	for what, err := range map[string]error{
		"save": all.CheckSavable(t.Context(), some, key, "paused"),
		"restore": func() error {
			_, err := all.OpenKey(t.Context(), some, key)
			return err
		}(),
	} {
		if e := agentbox.AsError(err); e == nil || e.Code != agentbox.Conflict || !strings.Contains(e.Message, "another version") || !strings.Contains(e.Hint, "agentbox reset b") {
			t.Errorf("%s: %+v", what, err)
		}
	}
}
