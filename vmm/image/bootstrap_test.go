package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// deadBuild makes what a build that was killed leaves: a directory in the store and one outside,
// linked.
func deadBuild(t *testing.T, s *Store) (dir, outside string) {
	t.Helper()
	dir, outside = filepath.Join(s.dir, tmpDir, "build-dead"), filepath.Join(t.TempDir(), "outside")
	tree(t, outside, "mmdebstrap.x/etc/passwd", "x")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, bootstrapLink)); err != nil {
		t.Fatal(err)
	}
	return dir, outside
}

func TestOpenRemovesInterruptedBootstrap(t *testing.T) {
	s := newStore(t)
	dir, outside := deadBuild(t, s)
	if _, err := Open(t.Context(), s.dir); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, outside} {
		if _, err := os.Stat(d); !os.IsNotExist(err) {
			t.Errorf("%s is still there (%v)", d, err)
		}
	}
}

func TestMountsAreRefused(t *testing.T) {
	if mounts, err := mountsBelow("/proc"); err != nil || !slices.Contains(mounts, "/proc") {
		t.Skipf("/proc is no mount here: %v, %v", mounts, err)
	}
	wantCode(t, refuseMounts("/proc"), agentbox.Conflict, "mounted")
	if err := refuseMounts(t.TempDir()); err != nil {
		t.Error(err)
	}
}

// A user's wrappers of Python come after Debian's own: mmdebstrap starts Python for each package.
func TestBootstrapPrefersSystemPrograms(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "sh"), []byte("#!/bin/sh\necho wrapper\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ caller []string }{{[]string{"PATH=" + bin, "HOME=/h"}}, {[]string{"HOME=/h"}}} {
		cmd := exec.Command("/usr/bin/env", "sh", "-c", `echo "$HOME $TMPDIR $LC_ALL $PATH"`)
		cmd.Env = bootstrapEnv(test.caller, "/build")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if want := "/h /build C.UTF-8 " + systemPath; !strings.HasPrefix(string(out), want) {
			t.Errorf("%q: got %q, want %q first", test.caller, out, want)
		}
	}
}
