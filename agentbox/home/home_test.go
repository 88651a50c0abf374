package home_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
)

// setenv makes the environment that decides where a home is; "" is unset.
func setenv(t *testing.T, own, data, user, session string) {
	t.Helper()
	for name, value := range map[string]string{home.EnvDir: own, "XDG_DATA_HOME": data, "HOME": user, "XDG_RUNTIME_DIR": session} {
		t.Setenv(name, value)
	}
}

// shortDir is a directory whose name leaves room for sockets, which that of t.TempDir may not.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "abx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestFindPrecedence(t *testing.T) {
	for _, c := range []struct{ own, data, user, want string }{
		{"/own", "/data", "/user", "/own"},
		{"/own/./x/..", "", "", "/own"},
		{"", "/data", "/user", "/data/agentbox"},
		{"", "", "/user", "/user/.local/share/agentbox"},
	} {
		setenv(t, c.own, c.data, c.user, "")
		if h, err := home.Find(); err != nil || h.Dir != c.want {
			t.Errorf("%+v: %s, %v", c, h.Dir, err)
		}
	}
}

func TestFindWithoutDirectory(t *testing.T) {
	setenv(t, "", "", "", "")
	_, err := home.Find()
	if e := agentbox.AsError(err); e == nil || e.Code != agentbox.Missing || !strings.Contains(e.Hint, home.EnvDir) {
		t.Errorf("got %#v", e)
	}
}

func TestFindRefusesLongPath(t *testing.T) {
	const socketPath = 107 // bytes, on Linux
	fits := 0
	for n := 1; n < 2*socketPath; n++ {
		setenv(t, "/"+strings.Repeat("x", n), "", "", "")
		h, err := home.Find()
		if err != nil {
			if e := agentbox.AsError(err); e.Code != agentbox.Invalid || !strings.Contains(e.Hint, home.EnvDir) {
				t.Fatalf("%d bytes: %#v", n, e)
			}
			break
		}
		fits = n
		if socket := h.Box(agentbox.NewBoxID()).Control(); len(socket) > socketPath {
			t.Fatalf("%s is %d bytes", socket, len(socket))
		}
	}
	if fits < 60 || fits > socketPath {
		t.Errorf("homes of up to %d bytes are found", fits)
	}
}

func TestCreate(t *testing.T) {
	own := filepath.Join(t.TempDir(), "deep", "home")
	setenv(t, own, "", "", t.TempDir())
	h := home.Home{Dir: own}
	for range 2 {
		if err := h.Create(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{h.Dir, h.State(), h.Images(), h.Kernels(), h.Templates(), h.Boxes(), h.Run()} {
		if fi, err := os.Lstat(dir); err != nil || fi.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", dir, fi, err)
		}
	}
}

func TestCreateReadOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (home.Home{Dir: filepath.Join(file, "home")}).Create(); agentbox.CodeOf(err) != agentbox.Missing {
		t.Errorf("got %v", err)
	}
}

func TestDefaultHomeSockets(t *testing.T) {
	session := t.TempDir()
	setenv(t, "", shortDir(t), "", session)
	h, err := home.Find()
	if err != nil {
		t.Fatal(err)
	}
	create := func() string {
		t.Helper()
		if err := h.Create(); err != nil {
			t.Fatal(err)
		}
		target, err := os.Readlink(h.Run())
		if err != nil || filepath.Dir(target) != session {
			t.Fatalf("run is %q, %v", target, err)
		}
		return target
	}
	first := create()
	if err := os.RemoveAll(first); err != nil { // as a reboot does
		t.Fatal(err)
	}
	if again := create(); again != first {
		t.Errorf("run moved from %s to %s", first, again)
	}
	if fi, err := os.Stat(h.Run()); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("after the session ended: %v, %v", fi, err)
	}
}

func TestSessionDirectoryIsGone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	setenv(t, "", shortDir(t), "", filepath.Join(file, "session"))
	h, err := home.Find()
	if err == nil {
		err = h.Create()
	}
	if fi, serr := os.Lstat(h.Run()); err != nil || serr != nil || !fi.IsDir() {
		t.Errorf("%v, %v, %v", err, serr, fi)
	}
}

func TestTwoHomesInOneSession(t *testing.T) {
	session := t.TempDir()
	targets := map[string]bool{}
	for range 2 {
		setenv(t, "", shortDir(t), "", session)
		h, err := home.Find()
		if err == nil {
			err = h.Create()
		}
		if err != nil {
			t.Fatal(err)
		}
		real, err := filepath.EvalSymlinks(h.Run())
		if err != nil || targets[real] {
			t.Errorf("%s is run of two homes (%v)", real, err)
		}
		targets[real] = true
	}
}
