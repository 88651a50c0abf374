package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/lima"
)

// Lima takes the descriptions that we write, and what it knows of a machine comes back. None is
// started: make e2e-lima does that.
func TestMachineWithoutStart(t *testing.T) {
	home, err := os.MkdirTemp("", "lima") // Lima's sockets have to fit
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	t.Setenv("LIMA_HOME", home)
	text, err := lima.Description{OS: "linux", Arch: runtime.GOARCH, CPUs: 2, Memory: "1GiB", Disk: "5GiB"}.YAML()
	if err != nil {
		t.Fatal(err)
	}
	act := func(name string) (lima.Instance, error) {
		var out bytes.Buffer
		err := run(t.Context(), name, "m", bytes.NewReader(text), &out)
		var inst lima.Instance
		if err == nil {
			err = json.Unmarshal(out.Bytes(), &inst)
		}
		return inst, err
	}
	if _, err := act("inspect"); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("before: %v", err)
	}
	made, err := act("create")
	want := lima.Instance{
		Name: "m", Status: lima.Stopped, Directory: filepath.Join(home, "m"), Driver: "qemu", CPUs: 2, Memory: 1 << 30, Disk: 5 << 30,
		SSHConfig: filepath.Join(home, "m", "ssh.config"), Host: "lima-m", Lima: made.Lima,
	}
	if got, _ := json.Marshal(made); err != nil || string(got) != string(must(json.Marshal(want))) {
		t.Fatalf("created: %s, %v", got, err)
	}
	if _, err := act("create"); agentbox.CodeOf(err) != agentbox.Exists {
		t.Errorf("twice: %v", err)
	}
	if inst, err := act("stop"); err != nil || inst.Status != lima.Stopped {
		t.Errorf("stopped: %+v, %v", inst, err)
	}
	// What a Lima of another year may have written.
	if err := os.WriteFile(filepath.Join(home, "m", "lima.yaml"), []byte("images: 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := act("start"); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("a machine that Lima cannot read: %v", err)
	}
	if _, err := act("delete"); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(home, "m")); left != nil {
		t.Errorf("left: %v", left)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
