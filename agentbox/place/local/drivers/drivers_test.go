package drivers

import (
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
)

func TestEachKindHasDriver(t *testing.T) {
	for _, kind := range agentbox.Kinds {
		if kind.Elsewhere {
			continue
		}
		if driver, err := Open(kind.Name, home.Home{Dir: t.TempDir()}, nil); err != nil || driver == nil {
			t.Errorf("%s: %v", kind.Name, err)
		}
	}
	for _, kind := range []agentbox.Isolation{"", agentbox.Auto, "jail"} {
		if driver, err := Open(kind, home.Home{Dir: t.TempDir()}, nil); err == nil || agentbox.CodeOf(err) == "" {
			t.Errorf("%q has driver %v", kind, driver)
		}
	}
}
