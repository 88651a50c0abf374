package gpu

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// described is a host with two GPUs, described as nvidia-ctk does. Their devices are /dev/null and
// /dev/zero, which every host has.
func described(t *testing.T, more string) (dirs []string, library string) {
	t.Helper()
	dir := t.TempDir()
	library = filepath.Join(dir, "libcuda.so.550.54.14")
	if err := os.WriteFile(library, []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := `cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- {name: "0", containerEdits: {deviceNodes: [{path: /dev/nvidia0, hostPath: /dev/null, major: 1, minor: 3, type: c}]}}
- {name: "1", containerEdits: {deviceNodes: [{path: /dev/nvidia1, hostPath: /dev/zero, major: 1, minor: 5, type: c}]}}
- {name: all, containerEdits: {deviceNodes: [{path: /dev/nvidia0, hostPath: /dev/null, major: 1, minor: 3, type: c}]}}
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void]
  deviceNodes: [{path: /dev/nvidiactl, hostPath: /dev/full, major: 1, minor: 7, type: c}]
  hooks: [{hookName: createContainer, path: /bin/false, args: [false]}]
  mounts:
  - {hostPath: ` + library + `, containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14, options: [ro, bind]}
  - {hostPath: /nowhere/at/all, containerPath: /usr/bin/nvidia-smi, options: [ro, bind]}
` + more
	if err := os.WriteFile(filepath.Join(dir, "nvidia.yaml"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{dir}, library
}

func TestFind(t *testing.T) {
	dirs, library := described(t, "")
	for n, want := range map[int]string{
		1:                `{"Devices":[{"Source":"/dev/full","Target":"/dev/nvidiactl","Major":1,"Minor":7},{"Source":"/dev/null","Target":"/dev/nvidia0","Major":1,"Minor":3}],"Files":[{"Source":"LIBRARY","Target":"/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14","Dir":false}]}`,
		agentbox.AllGPUs: `{"Devices":[{"Source":"/dev/full","Target":"/dev/nvidiactl","Major":1,"Minor":7},{"Source":"/dev/null","Target":"/dev/nvidia0","Major":1,"Minor":3},{"Source":"/dev/zero","Target":"/dev/nvidia1","Major":1,"Minor":5}],"Files":[{"Source":"LIBRARY","Target":"/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14","Dir":false}]}`,
	} {
		needs, err := Find(dirs, n)
		got, _ := json.Marshal(needs)
		if err != nil || strings.ReplaceAll(string(got), library, "LIBRARY") != want {
			t.Errorf("%d: %s, %v, want %s", n, got, err, want)
		}
	}
}

func TestFindRefuses(t *testing.T) {
	dirs, _ := described(t, "")
	outside, _ := described(t, "  - {hostPath: /etc, containerPath: /, options: [ro, bind]}\n")
	for name, c := range map[string]struct {
		dirs []string
		n    int
		want string
	}{
		"no description": {[]string{t.TempDir()}, 1, "no GPU of this host is described"},
		"too few":        {dirs, 3, "this host has 2 GPUs, and 3 are asked for"},
		"over the root":  {outside, 1, "mounts /etc on /"},
	} {
		if _, err := Find(c.dirs, c.n); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A library is given under the names by which programs load it.
func TestLoaderNames(t *testing.T) {
	found, _ := filepath.Glob("/lib/x86_64-linux-gnu/libc.so.6")
	if len(found) == 0 {
		t.Skip("no libc here to look at")
	}
	real := filepath.Join(t.TempDir(), "libc.so.2.36")
	b, err := os.ReadFile(found[0])
	if err == nil {
		err = os.WriteFile(real, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(loaderNames(real), " "); got != "libc.so.6 libc.so" {
		t.Errorf("%q", got)
	}
	if got := loaderNames("/etc/hostname"); got != nil {
		t.Errorf("no library: %q", got)
	}
}
