package gvisor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"agentbox/agentbox"
	"agentbox/vmm/child"
	"agentbox/vmm/statedir"
)

func TestIDMaps(t *testing.T) {
	for _, c := range []struct {
		own  int
		free idRange
		want []idRange
	}{
		{501, idRange{0, 100000, 65536}, []idRange{{0, 100000, 1000}, {1000, 501, 1}, {1001, 101000, 64535}}},
		{0, idRange{0, 1 << 30, 65536}, []idRange{{0, 1 << 30, 1000}, {1000, 0, 1}, {1001, 1<<30 + 1000, 64535}}},
		{7, idRange{0, 5000, 1000}, []idRange{{0, 5000, 1000}, {1000, 7, 1}}},
	} {
		if got := mapAround(c.own, c.free); !reflect.DeepEqual(got, c.want) {
			t.Errorf("around(%d, %v) = %v, want %v", c.own, c.free, got, c.want)
		}
	}
}

func TestSubordinateIDs(t *testing.T) {
	me := &user.User{Username: "ann", Uid: "501"}
	for text, want := range map[string]idRange{
		"":                                       {},
		"bob:100000:65536\n":                     {},
		"ann:100000:65536\n":                     {0, 100000, 65536},
		"501:200000:65536\n":                     {0, 200000, 65536},
		"ann:1:2000\n501:300000:65536\nann:9:10": {0, 300000, 65536},
		"ann:0:65536\nann:x:1\nann:1\nann:4294967295:65536\n": {},
	} {
		if got := largestRange(strings.NewReader(text), me); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if _, err := subordinate(filepath.Join(t.TempDir(), "subuid"), me); agentbox.CodeOf(err) != agentbox.Missing {
		t.Errorf("without a file: %v", err)
	}
}

// The setting that forbids user namespaces is named, with what allows them.
func TestNamespaceErrorNamesSetting(t *testing.T) {
	settings := t.TempDir()
	write := func(name, value string) {
		t.Helper()
		path := filepath.Join(settings, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(value+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("user/max_user_namespaces", "65536")
	if err := namespaceErrorBy(settings, syscall.EPERM); agentbox.CodeOf(err) != agentbox.Missing || !strings.Contains(err.Error(), "operation not permitted") {
		t.Errorf("where no setting forbids them: %v", err)
	}
	write("user/max_user_namespaces", "0")
	err := namespaceErrorBy(settings, syscall.ENOSPC)
	var said *agentbox.Error
	if !errors.As(err, &said) || !strings.HasSuffix(err.Error(), ": user.max_user_namespaces is 0") || said.Hint != "as root: sysctl -w user.max_user_namespaces=65536" {
		t.Errorf("where one does: %v", err)
	}
	if err := namespaceErrorBy(settings, syscall.ENOENT); agentbox.CodeOf(err) == agentbox.Missing {
		t.Errorf("what is not about namespaces: %v", err)
	}
}

func TestInPlaceWorkspacePermissions(t *testing.T) {
	d := New(Config{})
	path := filepath.Join(t.TempDir(), "workspace")
	if err := d.ReserveWorkspace(t.Context(), path, 1<<30); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o700); err != nil { // as a copy of a private repository leaves it
		t.Fatal(err)
	}
	if err := d.FinishWorkspace(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestRestoredMachineHasSpecOfSaved(t *testing.T) {
	if !reflect.DeepEqual(describe(1<<30, 2<<30), describe(1<<30, 2<<30)) {
		t.Error("two descriptions of one machine differ")
	}
	if reflect.DeepEqual(describe(1<<30, 2<<30), describe(2<<30, 2<<30)) {
		t.Error("a machine's description does not say its memory")
	}
	boot, restore := strings.Join(bootArgv(), " "), strings.Join(restoreArgv(), " ")
	for _, flag := range runscFlags() {
		if !strings.Contains(boot, flag) || !strings.Contains(restore, flag) {
			t.Errorf("%s is not said to both", flag)
		}
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

func TestCopyTreePreservesListing(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(src, "script"), []byte("#!/bin/sh\n"), 0o755),
		os.Chmod(filepath.Join(src, "script"), 0o4751|os.ModeSetuid),
		os.Mkdir(filepath.Join(src, "dir"), 0o700),
		os.WriteFile(filepath.Join(src, "dir", "\xff\n"), nil, 0o400),
		os.Symlink("nowhere", filepath.Join(src, "link")),
		os.Link(filepath.Join(src, "script"), filepath.Join(src, "dir", "again")),
		copyTree(t.Context(), dst, src, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	list := func(dir string) string {
		var b bytes.Buffer
		if err := listTree(&b, dir); err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(b.String(), "\n") // without the directory itself
		return rest
	}
	if one, two := list(src), list(dst); one != two || !strings.Contains(one, "link") {
		t.Errorf("a copy differs:\n%s\n%s", one, two)
	}
	one, err1 := os.Stat(filepath.Join(dst, "script"))
	two, err2 := os.Stat(filepath.Join(dst, "dir", "again"))
	if err1 != nil || err2 != nil || !os.SameFile(one, two) {
		t.Errorf("a hard link became two files (%v, %v)", err1, err2)
	}
	if err := copyTree(t.Context(), t.TempDir(), src, 5); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("beyond its limit: %v", err)
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

// A box can make a file that says it has a terabyte and takes a block. Neither a save nor a fork
// may fill the disk with its holes.
func TestHolesAreNotCopied(t *testing.T) {
	const size = 64 << 20
	src, dst := t.TempDir(), t.TempDir()
	f, err := os.Create(filepath.Join(src, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err1 := f.WriteAt([]byte("begin"), 0)
	_, err2 := f.WriteAt([]byte("middle"), size/2+100)
	if err := errors.Join(err1, err2, f.Truncate(size), f.Sync()); err != nil {
		t.Fatal(err)
	}
	blocks := func(path string) int64 {
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	if blocks(f.Name()) > size/2 {
		t.Skip("this file system has no holes")
	}
	if err := copyTree(t.Context(), dst, src, 0); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dst, "sparse")
	if got := blocks(copied); got > size/2 {
		t.Errorf("a copy of %d bytes takes %d", blocks(f.Name()), got)
	}
	one, err1 := agentbox.DigestFile(f.Name())
	two, err2 := agentbox.DigestFile(copied)
	if err := errors.Join(err1, err2); err != nil || one != two {
		t.Errorf("the copy differs: %v", err)
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

// deepTree makes directories whose path is longer than any that a program can name.
func deepTree(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	at, err := os.OpenRoot(top)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 250)
	for range 20 {
		if err := at.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		below, err := at.OpenRoot(name)
		if err := errors.Join(err, at.Close()); err != nil {
			t.Fatal(err)
		}
		at = below
	}
	if err := errors.Join(at.Mkdir("last", 0o755), at.Close()); err != nil {
		t.Fatal(err)
	}
	return top
}

// A box may nest directories as deep as it likes, and its workspace can be taken back all the same.
func TestDeepWorkspaceIsReclaimed(t *testing.T) {
	if _, err := hasForeign(deepTree(t)); err != nil {
		t.Error(err)
	}
}
