package hosts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// entered makes a directory the root of what runs then. A chroot would not do: the kernel makes no
// user namespaces in one.
const entered = `set -e
mount --bind "$1" "$1"
cd "$1"
mount --rbind /dev dev
mount -t sysfs sys sys
mount -t proc proc proc
mkdir -p old
pivot_root . old
umount -l old
shift
exec bash -c "$@"
`

// installed is what a bare Debian with git has after dpkg -i, and that a box runs there: offline but
// for its image, which comes with the test.
const installed = `set -e
dpkg -i /root/agentbox.deb
agentbox version
dpkg -L agentbox | grep -x /usr/share/man/man1/agentbox-up.1.gz
bash -n /usr/share/bash-completion/completions/agentbox
export AGENTBOX_HOME=/root/home AGENTBOX_POOL=0
mkdir /root/app && cd /root/app && cp /root/agentbox.yaml . && git init -q
agentbox image pull --from /root/image "$1"
agentbox up --isolation gvisor -- sh -c 'echo up of $(uname -s)'
agentbox rm -f
agentbox daemon stop
dpkg -r agentbox
test ! -e /usr/bin/agentbox
`

// TestRelease makes the release of this commit here and from a clone elsewhere, compares the bytes,
// and installs its package where there is nothing but essential packages and git.
func TestRelease(t *testing.T) {
	root := makeRoot(t, "stable", "git")
	checkout, err := filepath.Abs("../../..")
	need(t, err)
	run(t, checkout, nil, "make", "release")
	clone := filepath.Join(t.TempDir(), "elsewhere")
	run(t, "", nil, "git", "clone", "-q", checkout, clone)
	run(t, clone, nil, "make", "release")
	sameFiles(t, filepath.Join(checkout, "dist"), filepath.Join(clone, "dist"))
	run(t, filepath.Join(clone, "dist"), nil, "sha256sum", "--quiet", "-c", "SHA256SUMS")

	bare := filepath.Join(t.TempDir(), "bare")
	run(t, "", nil, "cp", "-a", root, bare)
	debs, err := filepath.Glob(filepath.Join(clone, "dist", "*-linux-amd64.deb"))
	if err != nil || len(debs) != 1 {
		t.Fatalf("%v, %v", debs, err)
	}
	run(t, "", nil, "cp", debs[0], filepath.Join(bare, "root/agentbox.deb"))
	digest := exportImage(t, filepath.Join(checkout, "bin/agentbox"), filepath.Join(bare, "root/image"))
	need(t, os.WriteFile(filepath.Join(bare, "root/agentbox.yaml"), []byte(boxConfig), 0o644))
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child",
		"bash", "-c", entered, "bash", bare, installed, "bash", digest)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "up of Linux\n") {
		t.Errorf("on a bare Debian: %v\n%s", err, out)
	}
}

func sameFiles(t *testing.T, one, other string) {
	t.Helper()
	names, err := os.ReadDir(one)
	if err != nil || len(names) < 10 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, e := range names {
		a, err := os.ReadFile(filepath.Join(one, e.Name()))
		need(t, err)
		b, err := os.ReadFile(filepath.Join(other, e.Name()))
		need(t, err)
		if !bytes.Equal(a, b) {
			t.Errorf("%s: %d bytes here and %d elsewhere differ", e.Name(), len(a), len(b))
		}
	}
}
