package host

import (
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/vmm/gpu"
)

func TestGPUsAreRefused(t *testing.T) {
	defer func(dirs []string) { gpu.Dirs = dirs }(gpu.Dirs)
	gpu.Dirs = []string{t.TempDir()}
	for kind, want := range map[agentbox.Isolation]string{agentbox.MicroVM: "has a machine of its own", agentbox.GVisor: "no GPU of this host is described", agentbox.Container: "no GPU of this host is described"} {
		if err := checkGPUs(1, kind); err == nil || !strings.Contains(err.Error(), want) || agentbox.AsError(err).Hint == "" {
			t.Errorf("%s: %v, want %q and a hint", kind, err, want)
		}
		if err := checkGPUs(0, kind); err != nil {
			t.Errorf("%s without gpus: %v", kind, err)
		}
	}
}
