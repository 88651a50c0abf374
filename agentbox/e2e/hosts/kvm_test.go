package hosts

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// scriptsEnv selects other scripts, as a regular expression.
const scriptsEnv = "AGENTBOX_KVM_SCRIPTS"

// kvmScripts are the scripts about machines that need no network but their own.
const kvmScripts = "states|reset|files|died|power|up|exec|run|rm|full|vanished"

// hostPackages are the packages of a host that runs boxes and scripts.
var hostPackages = []string{
	"busybox", "e2fsprogs", "git", "initramfs-tools", "iproute2", "kmod", "linux-image-cloud-amd64", "openssh-client", "procps",
	"python3-minimal", "qemu-system-x86", "rsync", "udev", "zstd",
}

const (
	hostStub = "#!/bin/sh\nmount -o ro /dev/vdb /mnt && exec /mnt/init\n"

	// hostInit is the first process of the host, after its initramfs. It writes the exit status of
	// the tests to the third disk.
	hostInit = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm; mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up; hostname kvm-host
/lib/systemd/systemd-udevd --daemon; udevadm trigger; udevadm settle
modprobe kvm-amd; udevadm settle; ls -l /dev/kvm; uname -r; qemu-system-x86_64 --version
while sleep 30; do echo '[the host is alive]'; done &
cp -a /mnt/seed /var/seed
status=0
cd /mnt/agentbox/vmm/qemu
AGENTBOX_TEST_KERNEL=/mnt/kernel TMPDIR=/tmp ./qemu.test -test.v -test.count=1 -test.timeout=60m -test.run "$(cat /mnt/suite)" || status=1
cd /mnt/agentbox/agentbox/e2e
AGENTBOX_E2E_BIN=/mnt/bin AGENTBOX_E2E_KIND=microvm AGENTBOX_E2E_EVERY_KIND=1 AGENTBOX_E2E_SEED=/var/seed TMPDIR=/tmp \
	./e2e.test -test.v -test.count=1 -test.timeout=120m -test.run "$(cat /mnt/scripts)" || status=1
echo $status >/dev/vdc
sync; busybox poweroff -f
`
)

// Emulated virtualization sometimes loses an interrupt, and then the host hangs for good. A host
// that has printed nothing for stallAfter, although it prints a sign of life, is replaced by a
// fresh one.
const (
	stallAfter = 5 * time.Minute // it prints a sign of life every half a minute
	mostHosts  = 3
)

// TestKVM runs boxes on a host of their own, whose emulated processor supports virtualization, so
// its /dev/kvm is that of the kernel's real kvm-amd. It has one CPU, because with two the emulation
// itself faults.
func TestKVM(t *testing.T) {
	root := makeRoot(t, "oldstable", hostPackages...)
	data := filepath.Join(t.TempDir(), "data")
	carry(t, data)
	need(t, os.WriteFile(filepath.Join(root, "sbin/agentbox-init"), []byte(hostStub), 0o755))
	for range mostHosts {
		result, stalled := runHost(t, root, data)
		if stalled {
			t.Logf("the emulated host stood still for %v; another begins", stallAfter)
			continue
		}
		line, _, _ := strings.Cut(string(result), "\n")
		if status, err := strconv.Atoi(line); err != nil || status != 0 {
			t.Errorf("the tests in the host failed: %q, %v", line, err)
		}
		return
	}
	t.Errorf("%d emulated hosts stood still: try it on a machine with nothing else to do", mostHosts)
}

// runHost runs a fresh host to its end, and returns the contents of its third disk, the exit status
// of the tests.
func runHost(t *testing.T, root, data string) (result []byte, stalled bool) {
	t.Helper()
	work := t.TempDir()
	disk := func(name string) string { return filepath.Join(work, name+".img") }
	need(t, os.WriteFile(disk("result"), make([]byte, 4<<10), 0o644))
	run(t, "", nil, "mke2fs", "-q", "-t", "ext4", "-d", root, disk("root"), "12G")
	run(t, "", nil, "mke2fs", "-q", "-t", "ext4", "-d", data, disk("data"), "4G")
	ctx, giveUp := context.WithCancelCause(t.Context())
	defer giveUp(nil)
	watch := &stallWatch{timer: time.AfterFunc(stallAfter, func() { giveUp(errStalled) })}
	defer watch.timer.Stop()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", hostArgv(t, root, []string{disk("root"), disk("data"), disk("result")})...)
	cmd.Stdout, cmd.Stderr = watch, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also when these tests are killed
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); errors.Is(context.Cause(ctx), errStalled) {
		need(t, os.RemoveAll(work))
		return nil, true
	} else if err != nil {
		t.Fatal(err)
	}
	result, err := os.ReadFile(disk("result"))
	need(t, err)
	return result, false
}

var errStalled = errors.New("it prints nothing")

// stallWatch passes on the output of a host, and resets its timer each time.
type stallWatch struct{ timer *time.Timer }

func (w *stallWatch) Write(p []byte) (int, error) {
	w.timer.Reset(stallAfter)
	return os.Stdout.Write(p)
}

// carry collects the files for the host: the binary, tests and scripts, an image and kernels.
func carry(t *testing.T, data string) {
	t.Helper()
	tree := filepath.Join(data, "agentbox")
	for _, dir := range []string{"bin", "seed", "agentbox/vmm/qemu", "agentbox/agentbox/e2e", "agentbox/testdata"} {
		need(t, os.MkdirAll(filepath.Join(data, dir), 0o755))
	}
	bin := filepath.Join(data, "bin", "agentbox")
	run(t, "../../..", nil, "make", "embedded")
	run(t, "../../..", []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-o", bin, ".")
	run(t, "..", []string{"CGO_ENABLED=0"}, "go", "build", "-o", filepath.Join(data, "bin", "power"), "../../tools/e2e/power")
	testBinary(t, "./vmm/qemu", filepath.Join(tree, "vmm/qemu/qemu.test"))
	testBinary(t, "./agentbox/e2e", filepath.Join(tree, "agentbox/e2e/e2e.test"))
	run(t, "", nil, "cp", "-r", "../../../testdata/script", filepath.Join(tree, "testdata/script"))
	run(t, "", nil, "cp", "-r", guestKernel(t), filepath.Join(data, "kernel"))
	seed := plant(t, bin)
	run(t, "", nil, "cp", "-a", "--sparse=always", filepath.Join(seed, "images"), filepath.Join(seed, "kernels"), filepath.Join(data, "seed"))
	scripts := os.Getenv(scriptsEnv)
	if scripts == "" {
		scripts = kvmScripts
	}
	for name, text := range map[string]string{
		"init": hostInit, "scripts": "^TestScript$/^microvm$/^(" + scripts + ")$", "suite": "^(TestConformance|TestFaults)$",
	} {
		need(t, os.WriteFile(filepath.Join(data, name), []byte(text), 0o755))
	}
}

// boxConfig is the configuration of the scripts, so that the image is the one they use.
const boxConfig = `image: apt:bookworm
packages: [busybox, git, inotify-tools, rsync]
cpus: 1
memory: 512MiB
disk: 4GiB
`

// plant makes a home with the image of the scripts, and a kernel with the agent of this build.
func plant(t *testing.T, bin string) string {
	t.Helper()
	home, repo := filepath.Join(cache(t), "home"), t.TempDir()
	need(t, os.WriteFile(filepath.Join(repo, "agentbox.yaml"), []byte(boxConfig), 0o644))
	env := []string{"AGENTBOX_HOME=" + home, "AGENTBOX_POOL=0"}
	run(t, repo, env, "git", "init", "-q")
	for _, args := range [][]string{{"up", "--detach", "--isolation", "microvm"}, {"rm"}, {"daemon", "stop"}} {
		run(t, repo, env, append([]string{bin}, args...)...)
	}
	return home
}

// hostArgv returns the command line of the host's QEMU.
func hostArgv(t *testing.T, root string, disks []string) []string {
	t.Helper()
	argv := []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "q35", "-accel", "tcg,tb-size=1024",
		"-cpu", "max,-la57,-smap", "-smp", "1", "-m", "4G", "-serial", "stdio",
		"-kernel", only(t, root, "vmlinuz-*"), "-initrd", only(t, root, "initrd.img-*"),
		"-append", "console=ttyS0 quiet root=/dev/vda rw init=/sbin/agentbox-init panic=-1 mitigations=off",
	}
	for i, disk := range disks {
		name := "disk" + strconv.Itoa(i)
		argv = append(argv, "-drive", "if=none,format=raw,cache=unsafe,id="+name+",file="+disk, "-device", "virtio-blk-pci,drive="+name)
	}
	return argv
}
