package gvisor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"agentbox/agentbox"
	"agentbox/vmm/child"
	"agentbox/vmm/gpu"
	"agentbox/vmm/gvisor/plan"
	"agentbox/vmm/statedir"
)

func TestRestoredMachineHasSpecOfSaved(t *testing.T) {
	if !reflect.DeepEqual(describe(1<<30, 2<<30, gpu.Needs{}), describe(1<<30, 2<<30, gpu.Needs{})) {
		t.Error("two descriptions of one machine differ")
	}
	if reflect.DeepEqual(describe(1<<30, 2<<30, gpu.Needs{}), describe(2<<30, 2<<30, gpu.Needs{})) {
		t.Error("a machine's description does not say its memory")
	}
	boot, restore := strings.Join(bootArgv(), " "), strings.Join(restoreArgv(), " ")
	for _, flag := range runscFlags() {
		if !strings.Contains(boot, flag) || !strings.Contains(restore, flag) {
			t.Errorf("%s is not said to both", flag)
		}
	}
}

// What runsc and the launcher are told of a GPU: nvproxy goes by the device nvidiactl.
func TestGPUs(t *testing.T) {
	gpus := gpu.Needs{
		Devices: []gpu.Device{{Source: "/dev/nvidiactl", Target: "/dev/nvidiactl", Major: 195, Minor: 255}},
		Files:   []gpu.File{{Source: "/usr/lib/libcuda.so.1.1", Target: "/usr/lib/libcuda.so.1"}, {Source: "/usr/share/nvidia", Target: "/usr/share/nvidia", Dir: true}},
	}
	plain, spec := describe(1<<30, 2<<30, gpu.Needs{}), describe(1<<30, 2<<30, gpus)
	if got, want := spec.Linux.Devices, []specs.LinuxDevice{{Path: "/dev/nvidiactl", Type: "c", Major: 195, Minor: 255}}; !reflect.DeepEqual(got, want) {
		t.Errorf("devices %+v, want %+v", got, want)
	}
	options := []string{"ro", "bind", "nosuid", "nodev"}
	if got, want := spec.Mounts[len(plain.Mounts):], []specs.Mount{
		{Destination: "/usr/lib/libcuda.so.1", Type: "bind", Source: "/gpu/0", Options: options},
		{Destination: "/usr/share/nvidia", Type: "bind", Source: "/gpu/1", Options: options},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("mounts %+v, want %+v", got, want)
	}
	if got, want := gpuBinds(gpus), []plan.Bind{
		{Source: "/dev/nvidiactl", Target: "/dev/nvidiactl", Writable: true, Device: true},
		{Source: "/usr/lib/libcuda.so.1.1", Target: "/gpu/0"}, {Source: "/usr/share/nvidia", Target: "/gpu/1", Dir: true},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("binds %+v, want %+v", got, want)
	}
	spec.Linux.Devices, spec.Mounts = nil, spec.Mounts[:len(plain.Mounts)]
	if !reflect.DeepEqual(spec, plain) {
		t.Error("a GPU changes more than devices and mounts")
	}
}

func someManifest() manifest {
	m := manifest{Basis: statedir.Basis{Format: formatVersion, Fingerprint: "f", CPUs: 1, Memory: 1 << 30, Disk: 1 << 30}, Images: map[string]image{}}
	for i, name := range imageNames {
		m.Images[name] = image{Size: int64(i), Digest: agentbox.Digest{byte(i)}}
	}
	return m
}

func TestManifestRoundTrip(t *testing.T) {
	m := someManifest()
	b, id, err := statedir.Seal(m)
	if err != nil {
		t.Fatal(err)
	}
	got, gotID, err := statedir.Unseal[manifest](b)
	if err != nil || gotID != id || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v, %v, %v", got, gotID, err)
	}
	for i := range b {
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x10
		if got, gotID, err := statedir.Unseal[manifest](damaged); err == nil && gotID == id && !reflect.DeepEqual(got, m) {
			t.Errorf("with byte %d damaged it is %+v", i, got)
		}
	}
}

func FuzzManifest(f *testing.F) {
	b, _, err := statedir.Seal(someManifest())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, id, err := statedir.Unseal[manifest](b)
		if err != nil {
			return
		}
		if _, again, err := statedir.Seal(m); err == nil && again.IsZero() != id.IsZero() {
			t.Errorf("%q has digest %v, and then %v", b, id, again)
		}
		for _, name := range imageNames {
			if m.Images[name].Size < 0 {
				t.Errorf("%q describes a file of negative size", b)
			}
		}
	})
}

func TestImageDigestCoversEveryByte(t *testing.T) {
	content := make([]byte, 2*chunkSize+100)
	whole, err := digestImage(context.Background(), bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, chunkSize - 1, chunkSize, 2 * chunkSize, len(content) - 1} {
		content[at] ^= 1
		if other, err := digestImage(context.Background(), bytes.NewReader(content), int64(len(content))); err != nil || other == whole {
			t.Errorf("byte %d makes no difference (%v)", at, err)
		}
		content[at] ^= 1
	}
	if _, err := digestImage(context.Background(), bytes.NewReader(content[:chunkSize]), int64(len(content))); err == nil {
		t.Error("a file that is too short has a digest")
	}
}

func TestMissingFUSEIsExplained(t *testing.T) {
	dir := t.TempDir()
	if err := opens(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "modprobe fuse") {
		t.Errorf("a device that is not there: %v", err)
	}
	closed := filepath.Join(dir, "closed")
	if err := os.WriteFile(closed, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := opens(closed); os.Getuid() != 0 && (err == nil || !strings.Contains(err.Error(), "chmod 666 "+closed)) {
		t.Errorf("a device that is not ours to open: %v", err)
	}
}

// The sandbox may be in the guest's hands. What it answers cannot fill the supervisor's memory.
func TestControlAnswerIsBounded(t *testing.T) {
	ours, theirs, err := child.SocketPair("control")
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	c := newControl(ours)
	const most = 16 << 20
	wrote := make(chan int, 1)
	go func() {
		n, _ := theirs.Write([]byte(`{"success":false,"err":"`))
		for chunk := bytes.Repeat([]byte("x"), 64<<10); n < most; {
			m, err := theirs.Write(chunk)
			n += m
			if err != nil {
				break
			}
		}
		theirs.Close()
		wrote <- n
	}()
	if err := c.call(t.Context(), quickCall, "Pause", nil); !errors.Is(err, errControl) {
		t.Errorf("a call without an answer: %v", err)
	}
	c.close()
	if n := <-wrote; n >= most {
		t.Errorf("%d bytes of an answer were read", n)
	}
}

// runsc's directory can be written from the sandbox: a link there leads nowhere for us.
func TestLogLinkIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	secret, log := filepath.Join(dir, "secret"), filepath.Join(dir, logFile)
	if err := os.WriteFile(secret, []byte("of the host\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, log); err != nil {
		t.Fatal(err)
	}
	if got := lastError(log); got != "" {
		t.Errorf("a link was followed: %q", got)
	}
	if err := errors.Join(os.Remove(log), syscall.Mkfifo(log, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := lastError(log); got != "" {
		t.Errorf("a pipe was read: %q", got)
	}
}
