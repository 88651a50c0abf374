package image

import (
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"agentbox/agentbox"
	"agentbox/vmm/image/rootfs"
)

// needMmdebstrap skips where apt images cannot be made at all.
func needMmdebstrap(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("downloads and installs a Debian")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		t.Skip("mmdebstrap is not installed")
	}
	if _, err := bootstrapMode(t.Context()); err != nil {
		t.Skip(err)
	}
}

func TestAptImage(t *testing.T) {
	needMmdebstrap(t)
	t.Parallel()
	s := newStore(t)
	steps := map[string]bool{}
	img, err := s.Ensure(t.Context(), Recipe{}, none, func(e agentbox.Event) { steps[strings.Fields(e.Detail)[0]] = true })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MB, %d packages", img.Size>>20, len(img.Versions))
	for _, step := range []string{"fetch", "install", "write", "hash"} {
		if !steps[step] {
			t.Errorf("no progress of %q", step)
		}
	}
	again, err := s.Rebuild(t.Context(), Recipe{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.Digest != img.Digest {
		t.Errorf("two builds gave %s and %s", img.Digest, again.Digest)
	}
	checkAptImage(t, img)
}

func checkAptImage(t *testing.T, img Image) {
	t.Helper()
	tr := readImage(t, img)
	for path, mode := range map[string]uint32{
		"bin/bash": 0o100755, "usr/bin/sudo": 0o104755, "usr/bin/ps": 0o100755, "usr/bin/apt-get": 0o100755,
		"etc/ssl/certs/ca-certificates.crt": 0o100644, "etc/sudoers.d/agentbox": 0o100440, "home/agent": 0o40755,
		"workspace": 0o40755, "tmp": 0o41777, "dev/null": 0o20666, "etc/machine-id": 0o100644, "var/log": 0o40755,
	} {
		if ino := tr.Lookup(path, true); ino == nil || ino.Mode != mode {
			t.Errorf("%s is %+v, want mode %o", path, ino, mode)
		}
	}
	for _, path := range []string{"etc/hostname", "usr/share/doc/bash", "usr/share/locale/de", "usr/share/man/man1/bash.1.gz", "var/log/dpkg.log", "etc/apt/sources.list.d/0000sources.sources"} {
		if tr.Lookup(path, false) != nil {
			t.Errorf("the image has /%s", path)
		}
	}
	if img.Size > 120<<20 {
		t.Errorf("the smallest image has %d MB", img.Size>>20)
	}
	if !slices.ContainsFunc(img.Versions, func(v string) bool { return strings.HasPrefix(v, "bash=") }) {
		t.Errorf("versions lack bash: %v", img.Versions)
	}
}

// TestAptImageAsUser runs TestAptImage again as an ordinary user, if there is one with a range of
// user ids.
func TestAptImageAsUser(t *testing.T) {
	needMmdebstrap(t)
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("TestAptImage ran as an ordinary user already")
	}
	u := userWithRange()
	if u == nil {
		t.Skip("no user of this host has a range in /etc/subuid and /etc/subgid")
	}
	dir := t.TempDir()
	for d := dir; d != filepath.Dir(os.TempDir()) && d != "/"; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err == nil && d != os.TempDir() && info.Mode()&0o1 == 0 {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	program := filepath.Join(dir, "image.test")
	if err := copyProgram(program); err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestAptImage$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{"HOME=" + u.HomeDir, "USER=" + u.Username, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: TestAptImage") && !strings.Contains(string(out), "SKIP") {
		t.Errorf("as %s: %v\n%s", u.Username, err, out)
	}
	t.Logf("as %s:\n%s", u.Username, out)
}

func copyProgram(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	in, err := os.Open(self)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

func userWithRange() *user.User {
	b, err := os.ReadFile("/etc/subuid")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		name, _, _ := strings.Cut(line, ":")
		if u, err := user.Lookup(name); err == nil && u.Uid != "0" && hasRange("/etc/subgid", u) {
			return u
		}
	}
	return nil
}

func TestAptErrors(t *testing.T) {
	needMmdebstrap(t)
	t.Parallel()
	_, err := newStore(t).Ensure(t.Context(), Recipe{Packages: []string{"git", "no-such-package-here"}}, none, nil)
	wantCode(t, err, agentbox.NotFound, "no-such-package-here")
	_, err = newStore(t).Ensure(t.Context(), Recipe{Source: "apt:nosuchsuite"}, none, nil)
	wantCode(t, err, agentbox.NotFound, "nosuchsuite")
}

func TestExplain(t *testing.T) {
	for text, want := range map[string]struct {
		code agentbox.Code
		say  string
	}{
		"E: Unable to locate package gti":                                                         {agentbox.NotFound, "package gti "},
		"E: Package 'gti' has no installation candidate":                                          {agentbox.NotFound, "package gti "},
		"E: Version '9' for 'git' was not found":                                                  {agentbox.NotFound, "package git "},
		"W: x\nE: The repository 'http://m bad Release' does not have a Release file.":            {agentbox.NotFound, "suite bookworm"},
		"Err:1 http://m bookworm\n  Could not resolve 'm'\nE: Failed to fetch":                    {agentbox.Unavailable, "mirror"},
		"W: GPG error: http://m: the following signatures couldn't be verified: NO_PUBKEY 123":    {agentbox.Missing, "signed"},
		"tar: ./usr: Cannot write: No space left on device\nE: tar failed":                        {agentbox.NoSpace, "space"},
		"dpkg: error processing package foo (--configure):\nE: run_chroot failed: E: apt failed:": {agentbox.Invalid, "package foo"},
		"E: something new": {agentbox.Internal, "something new"},
		"":                 {agentbox.Internal, "nothing"},
	} {
		l := &bootstrapLog{}
		if _, err := io.WriteString(l, text+"\n"); err != nil {
			t.Fatal(err)
		}
		wantCode(t, l.explain(os.ErrInvalid, "bookworm", "/tmp/x"), want.code, want.say)
	}
}

const sources = `# comment
Types: deb deb-src
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/k.gpg

Enabled: no
Types: deb
URIs: http://off.test/debian
Suites: bookworm

Types: deb
URIs: http://tools.test/x
Suites: nodistro
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
`

const listFile = `deb [arch=amd64,arm64 signed-by=/k.gpg] http://mirror.test/debian-security bookworm-security main contrib # c
deb-src http://mirror.test/debian bookworm main
deb http://mirror.test/flat ./
nonsense
`

func TestAptSources(t *testing.T) {
	root := fstest.MapFS{
		"etc/os-release":                          {Data: []byte("NAME=x\nVERSION_CODENAME=bookworm\n")},
		"etc/apt/sources.list":                    {Data: []byte(listFile)},
		"etc/apt/sources.list.d/a.sources":        {Data: []byte(sources)},
		"etc/apt/sources.list.d/b.sources.disabl": {Data: []byte(sources)},
	}
	got, err := aptSources(root, "bookworm")
	want := `Types: deb
URIs: http://mirror.test/debian-security
Suites: bookworm-security
Components: main contrib
Architectures: amd64 arm64
Signed-By: /k.gpg

Types: deb
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/k.gpg

`
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := aptSources(root, "trixie"); err != nil || !strings.Contains(got, "Suites: trixie trixie-updates\n") || !strings.Contains(got, "Suites: trixie-security\n") {
		t.Errorf("another release: %v\n%s", err, got)
	}
	if got, err := aptSources(root, "nodistro"); err != nil || !strings.Contains(got, "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n") {
		t.Errorf("embedded key: %v\n%s", err, got)
	}
	_, err = aptSources(fstest.MapFS{}, "bookworm")
	wantCode(t, err, agentbox.NotFound, "bookworm")
}

func TestBootstrapArgs(t *testing.T) {
	r, err := Recipe{Packages: []string{"git", "bash"}, Platform: "linux/arm64"}.normal()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(bootstrapArgs("unshare", "bookworm", r), " ")
	for _, want := range []string{"--mode=unshare ", "--include=bash,ca-certificates,coreutils,git,netbase,procps,sudo,usr-is-merged ", "--architectures=arm64 ", " bookworm - -"} {
		if !strings.Contains(got+" ", want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}

// A box is told where packages come from, and never with what password.
func TestBoxSourcesHaveNoPasswords(t *testing.T) {
	root := fstest.MapFS{
		"etc/apt/sources.list":             {Data: []byte("deb https://robot:list%2Fpw@list.test/debian bookworm main\n")},
		"etc/apt/sources.list.d/a.sources": {Data: []byte("Types: deb\nURIs: https://robot:odd@pw@deb.test:8080/debian\n http://only-user@deb.test/more\nSuites: bookworm\nComponents: main\n")},
	}
	got, err := boxSources(root, "bookworm")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"https://list.test/debian", "https://deb.test:8080/debian", "http://deb.test/more"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "@") || strings.Contains(got, "pw") || strings.Contains(got, "robot") {
		t.Errorf("credentials of this host are in\n%s", got)
	}
	if build, err := aptSources(root, "bookworm"); err != nil || !strings.Contains(build, "robot:list%2Fpw@") {
		t.Errorf("a build cannot use this host's credentials: %v\n%s", err, build)
	}
}

// What a build on this host may use stays on this host.
func TestAptPasswordsAreNotInImage(t *testing.T) {
	b, err := newStore(t).newBuild(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	const proxy = "etc/apt/apt.conf.d/95site-proxy"
	for name, text := range map[string]string{
		"etc/apt/sources.list":                    "deb https://robot:hunter2@list.test/debian bookworm main\n",
		"etc/apt/sources.list.d/0000main.sources": "URIs: https://robot:hunter2@deb.test/debian\n",
		"etc/apt/auth.conf":                       "machine deb.test login robot password hunter2\n",
		"etc/apt/auth.conf.d/site.conf":           "machine deb.test login robot password hunter2\n",
		"etc/apt/apt.conf":                        "Acquire::https::Proxy \"http://robot:hunter2@proxy.test:3128\";\n",
		proxy:                                     "// of this site\nAcquire {\n http::Proxy \"http://robot:hunter2@proxy.test:3128\";\n};\n",
		"etc/apt/apt.conf.d/01autoremove":         "APT { NeverAutoRemove { \"^linux-image.*\"; }; };\n",
		"var/lib/apt/lists/deb.test_InRelease":    "hunter2",
		"etc/apt/preferences.d/of-a-package":      "Package: *\n",
	} {
		if err := b.put(name, &rootfs.Inode{Mode: rootfs.TypeRegular | 0o644, ModTime: epoch}, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.removeHostState(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"etc/apt", "etc/apt/sources.list.d", "etc/apt/auth.conf.d", "etc/apt/apt.conf.d", "var/lib/apt/lists"} {
		for name, ino := range b.entriesOf(dir) {
			if text, err := ino.ReadAll(1 << 20); err == nil && strings.Contains(string(text), "hunter2") {
				t.Errorf("the image has %s/%s with a password of this host: %s", dir, name, text)
			}
		}
	}
	for _, name := range []string{"etc/apt/apt.conf.d/01autoremove", "etc/apt/preferences.d/of-a-package"} {
		if b.tree.Lookup(name, false) == nil {
			t.Errorf("the image lost %s", name)
		}
	}
}

// apt takes tabs for spaces in sources.list.
func TestAptSourcesWithTabs(t *testing.T) {
	root := fstest.MapFS{"etc/apt/sources.list": {Data: []byte("deb\t[ arch=amd64 ]\thttp://mirror.test/debian\tbookworm\tmain contrib\n")}}
	got, err := aptSources(root, "bookworm")
	want := "Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm\nComponents: main contrib\nArchitectures: amd64\n\n"
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}
