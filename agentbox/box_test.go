package agentbox_test

import (
	"testing"

	"agentbox/agentbox"
)

func TestBoxID(t *testing.T) {
	a, b := agentbox.NewBoxID(), agentbox.NewBoxID()
	if a == b {
		t.Fatal("two ids are the same")
	}
	back, err := agentbox.ParseBoxID(a.String())
	if err != nil || back != a {
		t.Fatalf("ParseBoxID(%s) = %s, %v", a, back, err)
	}
	for _, bad := range []string{"", "xyz", a.String()[:11], a.String() + "00"} {
		if _, err := agentbox.ParseBoxID(bad); err == nil {
			t.Errorf("ParseBoxID(%q) succeeds", bad)
		}
	}
}
