package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"agentbox/agentbox"
)

func TestParseMountinfo(t *testing.T) {
	const table = `22 27 0:21 / /proc rw,relatime - proc proc rw
43 27 0:27 / /tmp/a\040b/x/dev/shm rw,relatime - tmpfs tmpfs rw
44 27 8:1 /srv/one\134two /tmp/c rw - ext4 /dev/sda1 rw
short line
`
	want := []mounted{{"0:21", "/", "/proc"}, {"0:27", "/", "/tmp/a b/x/dev/shm"}, {"8:1", `/srv/one\two`, "/tmp/c"}}
	if got := parseMountinfo(table); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMountedHomeIsDetected(t *testing.T) {
	host := []mounted{
		{"8:1", "/", "/"}, {"8:2", "/users", "/home"}, {"8:2", "/users/me/.local/agentbox/boxes/b1/code/deep", "/home/me/other"},
		{"8:2", "/users/me/code", "/mnt/code"}, {"8:1", "/users/me/.local/agentbox", "/mnt/same-name"}, {"8:2", "/", "/mnt/disk"},
		{"8:2", "/users/me/.local/agentbox/store.key", "/mnt/files/x/key"}, {"8:2", "/users/me/.local/agentboxes", "/mnt/neighbour"},
	}
	own := []string{"/home/me/.local/agentbox"}
	for real, refused := range map[string]bool{
		"/home/me/other": true, "/home/me/other/further": true, "/home/me": true, "/mnt/files": true, "/mnt/files/x/key": true, "/mnt/disk/users/me/.local/agentbox/boxes": true,
		"/home/me/code": false, "/mnt/code": false, "/mnt/same-name": false, "/mnt/neighbour": false, "/opt": false, "/home/me/otherwise": false,
	} {
		err := mountedElsewhere(real, real, own, host)
		if (err != nil) != refused {
			t.Errorf("%s: %v", real, err)
		}
	}
}

// TestIncludeOfMountedHome really mounts one, which root may.
func TestIncludeOfMountedHome(t *testing.T) {
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("only root of Linux mounts")
	}
	home := testHome(t)
	tree(t, home, "data/agentbox/boxes/b1/w/deep/key", "secret", "other/x/y", "ok", "plain/x", "ok")
	never := ExcludeBelow(filepath.Join(home, "data/agentbox"))
	at := filepath.Join(home, "other/x")
	if out, err := exec.Command("mount", "--bind", filepath.Join(home, "data/agentbox/boxes/b1/w/deep"), at).CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	for _, from := range []string{"~/other/x", "~/other/x/key", "~/other"} {
		_, err := resolveIncludes(t.Context(), []Include{{From: from, To: "/opt/x"}}, never)
		wantCode(t, err, agentbox.Invalid, "keys of every box")
	}
	if _, err := resolveIncludes(t.Context(), []Include{{From: "~/plain", To: "/opt/x"}}, never); err != nil {
		t.Error(err)
	}
}
