package container

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"agentbox/agentbox"
	"agentbox/vmm/container/plan"
	"agentbox/vmm/gpu"
)

// What the launcher is told of a GPU, by a description like that of nvidia-ctk; none without one.
func TestGPUs(t *testing.T) {
	dir := t.TempDir()
	description := `{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/dev/null"}]}}],
		"containerEdits": {"mounts": [{"hostPath": "/etc/hostname", "containerPath": "/usr/bin/nvidia-smi"}, {"hostPath": "/etc", "containerPath": "/usr/share/nvidia"}]}}`
	if err := os.WriteFile(filepath.Join(dir, "nvidia.json"), []byte(description), 0o644); err != nil {
		t.Fatal(err)
	}
	defer func(dirs []string) { gpu.Dirs = dirs }(gpu.Dirs)
	gpu.Dirs = []string{dir}
	hostname, err := filepath.EvalSymlinks("/etc/hostname")
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.Extra{{Source: "/dev/null", Target: "/dev/nvidia0", Device: true}, {Source: hostname, Target: "/usr/bin/nvidia-smi"}, {Source: "/etc", Target: "/usr/share/nvidia", Dir: true}}
	if got, err := extras(1); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := extras(0); err != nil || got != nil {
		t.Errorf("without gpus: %+v, %v", got, err)
	}
	if _, err := extras(2); agentbox.CodeOf(err) != agentbox.Missing {
		t.Errorf("more than there are: %v", err)
	}
}
