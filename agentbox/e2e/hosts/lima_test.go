package hosts

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// vmPackages are the packages of the Lima machine: what Debian's image for clouds has, and what
// boxes need.
var vmPackages = []string{
	"ca-certificates", "cloud-init", "dbus", "e2fsprogs", "git", "initramfs-tools", "iproute2", "kmod", "linux-image-cloud-amd64", "mmdebstrap",
	"netplan.io", "openssh-server", "procps", "rsync", "sudo", "systemd-resolved", "systemd-sysv", "udev", "uidmap", "zstd",
}

// vmRun makes a repository in the machine and runs a box of it: a command, a port, a policy, a
// reset. The image comes from outside, as building it under emulation takes long.
const vmRun = `set -e
mkdir -p ~/app && cd ~/app
[ -d .git ] || { git init -q && cat >agentbox.yaml && git add . && git -c user.name=t -c user.email=t@example.com commit -qm first; }
agentbox image pull --from ~/image "$1"
time agentbox up -- true
time agentbox up -- true
agentbox up -- sh -c 'echo kept >/workspace/file; uname -r; id -un'
agentbox reset -q
agentbox up -- cat /workspace/file
agentbox doctor
agentbox show --json
`

// limaTest is a home of its own, with a short path as Lima's sockets need it.
type limaTest struct {
	*testing.T
	bin  string
	home string
	dir  string // where commands run, "" for this package's
}

func (l limaTest) cmd(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(l.Context(), l.bin, args...)
	cmd.Env, cmd.Dir = append(os.Environ(), "AGENTBOX_HOME="+l.home), l.dir
	return cmd
}

// must runs agentbox, and returns what it prints and the time it takes.
func (l limaTest) must(stdin io.Reader, args ...string) (string, time.Duration) {
	l.Helper()
	cmd := l.cmd(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	l.Logf("agentbox %.60s: %v\n%s%s", strings.Join(args, " "), took.Round(time.Millisecond), stderr.String(), stdout.String())
	if err != nil {
		l.Fatal(err)
	}
	return stdout.String(), took
}

// TestLima makes a machine by Lima, with QEMU and without KVM, and a box in it.
func TestLima(t *testing.T) {
	root := makeRoot(t, "stable", vmPackages...)
	home, err := os.MkdirTemp("/tmp", "lima")
	need(t, err)
	bin, err := filepath.Abs("../../../bin/agentbox")
	need(t, err)
	l := limaTest{T: t, bin: bin, home: home}
	t.Cleanup(func() { os.RemoveAll(home) })
	disk := filepath.Join(home, "root.img")
	run(t, "", nil, "mke2fs", "-q", "-t", "ext4", "-d", root, disk, "4G")
	l.must(nil, "lima", "create", "--cpus", "2", "--memory", "3GiB", "--disk", "12GiB", "--image", disk, "--kernel", only(t, root, "vmlinuz-*"), "--initrd", only(t, root, "initrd.img-*"))
	t.Cleanup(func() {
		cmd := exec.Command(bin, "lima", "rm") // the test's context has ended
		cmd.Env = append(os.Environ(), "AGENTBOX_HOME="+home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("lima rm: %v, %s", err, out)
		}
	})
	_, ready := l.must(nil, "lima", "start")
	t.Logf("FIGURE from create to READY, with the program in it: %v", ready)
	_, again := l.must(nil, "lima", "start")
	t.Logf("FIGURE start of a machine that runs: %v", again)
	digest := l.carryImage()
	l.must(strings.NewReader(boxConfig), "lima", "shell", "--", "bash", "-c", vmRun, "bash", digest)
	l.port()
	if out, err := l.cmd("lima", "shell", "--", "sh", "-c", "exit 7").CombinedOutput(); err == nil || l.code(err) != 7 {
		t.Errorf("exit 7 in the machine: %v, %s", err, out)
	}
	l.lease()
	l.checkout()
	l.must(nil, "lima", "stop")
	_, restart := l.must(nil, "lima", "start")
	t.Logf("FIGURE start of a stopped machine: %v", restart)
	if out, _ := l.must(nil, "lima", "shell", "--", "sh", "-c", "cd app && agentbox up -- cat /workspace/file"); out != "kept\n" {
		t.Errorf("after a restart of the machine: %q", out)
	}
}

// checkout makes a box of a checkout of this host, whose configuration asks for the machine, and uses
// it from here as any other.
func (l limaTest) checkout() {
	l.Helper()
	repo := l.TempDir()
	need(l.T, os.WriteFile(filepath.Join(repo, "agentbox.yaml"), []byte(boxConfig+"isolation: lima\n"), 0o644))
	need(l.T, os.WriteFile(filepath.Join(repo, "README"), []byte("hello\n"), 0o644))
	git := []string{"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=t", "GIT_CONFIG_KEY_1=user.email", "GIT_CONFIG_VALUE_1=t@example.com"}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-qm", "first"}} {
		run(l.T, repo, git, append([]string{"git"}, args...)...)
	}
	l.dir = repo
	_, first := l.must(nil, "up", "-d")
	l.Logf("FIGURE up from here, the program and the image there: %v", first)
	if out, _ := l.must(nil, "up", "--", "sh", "-c", "echo more >>README; cat README"); out != "hello\nmore\n" {
		l.Errorf("the box of the checkout has %q", out)
	}
	var took []time.Duration
	for range 10 {
		_, one := l.must(nil, "exec", "--", "true")
		took = append(took, one)
	}
	slices.Sort(took)
	l.Logf("FIGURE exec -- true from here: p50 %v (%v to %v)", took[5], took[0], took[9])
	l.must(nil, "pause")
	if out, _ := l.must(nil, "exec", "--", "cat", "README"); out != "hello\nmore\n" {
		l.Errorf("after a pause: %q", out)
	}
	l.must(nil, "pull")
	if out, err := exec.CommandContext(l.Context(), "git", "-C", repo, "log", "-p", "--all", "-1").Output(); err != nil || !strings.Contains(string(out), "+more") {
		l.Errorf("pull: %s, %v", out, err)
	}
	l.must(nil, "rm", "--force")
}

func (l limaTest) code(err error) int {
	if status, ok := err.(*exec.ExitError); ok {
		return status.ExitCode()
	}
	return -1
}

// carryImage makes the image of boxConfig here and brings it into the machine.
func (l limaTest) carryImage() (digest string) {
	l.Helper()
	dir := filepath.Join(l.TempDir(), "image")
	digest = exportImage(l.T, l.bin, dir)
	tar := exec.CommandContext(l.Context(), "tar", "-C", dir, "-c", ".")
	from, err := tar.StdoutPipe()
	need(l.T, err)
	need(l.T, tar.Start())
	l.must(from, "lima", "shell", "--", "sh", "-c", "mkdir -p ~/image && tar -C ~/image -x")
	need(l.T, tar.Wait())
	return digest
}

// port reaches a service of the box from here, through the machine's ssh.
func (l limaTest) port() {
	l.Helper()
	l.must(nil, "lima", "shell", "--", "sh", "-c", "cd app && agentbox exec -d -- busybox httpd -f -p 8000 -h /workspace && agentbox ports 8000 && until agentbox exec -- busybox wget -qO /dev/null http://127.0.0.1:8000/file; do :; done")
	var inst struct {
		SSHConfig string `json:"ssh_config"`
		Host      string
	}
	out, _ := l.must(nil, "--json", "lima", "show")
	need(l.T, json.Unmarshal([]byte(out), &inst))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	need(l.T, err)
	at := free.Addr().String()
	free.Close()
	ssh := exec.CommandContext(l.Context(), "ssh", "-F", inst.SSHConfig, "-S", "none", "-o", "ExitOnForwardFailure=yes", "-L", at+":127.0.0.1:8000", inst.Host, "echo ready; cat")
	ready, err := ssh.StdoutPipe()
	need(l.T, err)
	stdin, err := ssh.StdinPipe()
	need(l.T, err)
	need(l.T, ssh.Start())
	_, err = io.ReadFull(ready, make([]byte, len("ready\n")))
	need(l.T, err)
	resp, err := http.Get("http://" + at + "/file")
	need(l.T, err)
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "kept\n" {
		l.Errorf("the box's port: %q, %v", got, err)
	}
	stdin.Close()
	ssh.Wait()
}

// lease measures commands in the box from inside the machine, where no connection is made anew, and
// a command in the machine beside it.
func (l limaTest) lease() {
	l.Helper()
	const runs = 20
	out, _ := l.must(nil, "lima", "shell", "--", "bash", "-c", `cd app; agentbox up -q; for i in $(seq `+strconv.Itoa(runs)+`); do s=$(date +%s%N); agentbox up -- true; e=$(date +%s%N); echo $(((e-s)/1000000)); done`)
	lines := strings.Fields(out)
	took := make([]int, 0, runs)
	for _, s := range lines[len(lines)-runs:] {
		ms, err := strconv.Atoi(s)
		need(l.T, err)
		took = append(took, ms)
	}
	var shell []int
	for range runs {
		start := time.Now()
		if err := l.cmd("lima", "shell", "--", "true").Run(); err != nil {
			l.Fatal(err)
		}
		shell = append(shell, int(time.Since(start).Milliseconds()))
	}
	slices.Sort(took)
	slices.Sort(shell)
	l.Logf("FIGURE up -- true in a box that runs, inside the machine: p50 %d ms (%d to %d); lima shell -- true from here: p50 %d ms (%d to %d)",
		took[runs/2], took[0], took[runs-1], shell[runs/2], shell[0], shell[runs-1])
}
