package daemon

import (
	"strings"
	"testing"

	"agentbox/agentbox"
)

func TestPoolFromEnv(t *testing.T) {
	for in, want := range map[string]int{"": -1, "0": 0, "4": 4, "64": 64} {
		t.Setenv(poolEnv, in)
		if got, err := PoolFromEnv(); err != nil || got != want {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"-1", "65", "4.5", "many", " 4", "99999999999999999999"} {
		t.Setenv(poolEnv, in)
		_, err := PoolFromEnv()
		if agentbox.CodeOf(err) != agentbox.Invalid || !strings.Contains(err.Error(), poolEnv) {
			t.Errorf("%q: %v", in, err)
		}
	}
}
