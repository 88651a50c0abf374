package kernel

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cavaliergopher/cpio"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// fakeImage is as much of a bzImage as is looked at.
func fakeImage(release string) []byte {
	b := make([]byte, 0x800)
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x20e:], 0x300)
	copy(b[0x500:], release+" (build@host) #1\x00")
	return b
}

// fakeModule is an ELF with nothing but a .modinfo section.
func fakeModule(info ...string) []byte {
	modinfo := strings.Join(info, "\x00") + "\x00"
	names := "\x00.modinfo\x00.shstrtab\x00"
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	le := binary.LittleEndian
	data := uint64(64)
	sections := data + uint64(len(modinfo)+len(names))
	for _, v := range []any{uint16(1), uint16(62), uint32(1), uint64(0), uint64(0), sections, uint32(0), uint16(64), uint16(0), uint16(0), uint16(64), uint16(3), uint16(2)} {
		binary.Write(&b, le, v)
	}
	b.WriteString(modinfo + names)
	section := func(name, kind uint32, offset, size uint64) {
		for _, v := range []any{name, kind, uint64(0), uint64(0), offset, size, uint32(0), uint32(0), uint64(1), uint64(0)} {
			binary.Write(&b, le, v)
		}
	}
	section(0, 0, 0, 0)
	section(1, 1, data, uint64(len(modinfo)))
	section(10, 3, data+uint64(len(modinfo)), uint64(len(names)))
	return b.Bytes()
}

func compressed(t *testing.T, kind string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	switch kind {
	case "xz":
		w, err := xz.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(data)
		w.Close()
	case "zst":
		w, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(data)
		w.Close()
	}
	return b.Bytes()
}

func TestModuleOrder(t *testing.T) {
	tree, err := indexModules(fstest.MapFS{
		"modules.builtin":                 {Data: []byte("kernel/fs/ext4/ext4.ko\nkernel/lib/crc16.ko\n")},
		"kernel/drivers/virtio-blk.ko.xz": {Data: compressed(t, "xz", fakeModule("name=virtio_blk", "depends=virtio-ring,virtio"))},
		"kernel/virtio/virtio.ko.zst":     {Data: compressed(t, "zst", fakeModule("depends="))},
		"kernel/virtio/virtio_ring.ko":    {Data: fakeModule("depends=virtio,crc16")},
		"kernel/fs/erofs.ko":              {Data: fakeModule("softdep=pre: fast-crc no-such post: other", "depends=")},
		"kernel/lib/fast-crc.ko":          {Data: fakeModule("depends=")},
		"updates/virtio.ko":               {Data: []byte("somebody else's")},
		"kernel/not/wanted.ko":            {Data: []byte("never read")},
	})
	if err != nil {
		t.Fatal(err)
	}
	mods, err := tree.resolve([]string{"ext4", "virtio_blk"}, []string{"erofs", "absent"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range mods {
		names = append(names, m.Name)
	}
	if got := strings.Join(names, " "); got != "virtio virtio_ring virtio_blk fast_crc erofs" {
		t.Errorf("order: %s", got)
	}
	if _, err := tree.resolve([]string{"absent"}, nil); err == nil || !strings.Contains(err.Error(), "no module absent") {
		t.Errorf("err %v", err)
	}
}

func TestModuleCycleIsAnError(t *testing.T) {
	tree, err := indexModules(fstest.MapFS{"a.ko": {Data: fakeModule("depends=b")}, "b.ko": {Data: fakeModule("depends=a")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.resolve([]string{"a"}, nil); err == nil || !strings.Contains(err.Error(), "depends on itself") {
		t.Errorf("err %v", err)
	}
}

func FuzzDependencies(f *testing.F) {
	f.Add(fakeModule("depends=a,b", "softdep=pre: c"))
	f.Fuzz(func(_ *testing.T, data []byte) { dependencies(data) })
}

func FuzzImageRelease(f *testing.F) {
	f.Add(fakeImage("6.1.0-56-cloud-amd64"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := imageRelease(data); err == nil && (r == "" || strings.ContainsAny(r, "/\x00") || strings.HasPrefix(r, ".")) {
			t.Fatalf("release %q", r)
		}
	})
}

// A release is the name of a directory, here and in the kernel's own package.
func TestInvalidReleases(t *testing.T) {
	for _, release := range []string{"", "\x00more", " 6.1.0", "..", ".hidden", "a/b"} {
		if got, err := imageRelease(fakeImage(release)); err == nil {
			t.Errorf("a header that says %q is of release %q", release, got)
		}
	}
}

// fakeKernel is a directory that the `kernel:` key could name.
func fakeKernel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	modules := filepath.Join(dir, "lib/modules/6.1.0-fake")
	if err := os.MkdirAll(modules, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range requiredModules {
		if err := os.WriteFile(filepath.Join(modules, name+".ko"), fakeModule("depends="), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "vmlinuz-6.1.0-fake"), fakeImage("6.1.0-fake"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestKernelDirectoryIsReproducible(t *testing.T) {
	override := fakeKernel(t)
	ensure := func(agent string) (string, []byte) {
		dir, err := Ensure(t.Context(), Config{Root: t.TempDir(), Override: override, Agent: []byte(agent)})
		if err != nil {
			t.Fatal(err)
		}
		initrd, err := os.ReadFile(filepath.Join(dir, FileInitrd))
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Base(dir), initrd
	}
	nameA, a := ensure("agent one")
	nameB, b := ensure("agent one")
	nameC, _ := ensure("agent two")
	if nameA != nameB || !bytes.Equal(a, b) || nameA == nameC {
		t.Errorf("directories %s %s %s", nameA, nameB, nameC)
	}
}

func TestInitramfsContents(t *testing.T) {
	archive := initramfs([]byte("agent"), []module{{Name: "b", data: []byte("bb")}, {Name: "a", data: []byte("a")}})
	r := cpio.NewReader(bytes.NewReader(archive))
	var names []string
	for {
		h, err := r.Next()
		if err != nil {
			break
		}
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "dev dev/console init modules modules/00-b.ko modules/01-a.ko modules/list" {
		t.Errorf("archive: %s", got)
	}
	if !bytes.Contains(archive, []byte("00-b.ko\n01-a.ko\n")) {
		t.Error("the list is not in load order")
	}
}

func TestDamagedDirectoryIsRebuilt(t *testing.T) {
	c := Config{Root: t.TempDir(), Override: fakeKernel(t), Agent: []byte("agent")}
	dir, err := Ensure(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{FileVmlinuz, FileInitrd, FileManifest} {
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(good)
		bad[len(bad)/2] ^= 1
		for _, damage := range []func() error{
			func() error { return os.WriteFile(path, bad, 0o644) },
			func() error { return os.Truncate(path, int64(len(good)/2)) },
			func() error { return os.Remove(path) },
		} {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			// A flipped bit of the manifest may be one that says nothing about bytes, in a name for
			// people.
			if err := verify(dir); agentbox.CodeOf(err) != agentbox.Corrupt && name != FileManifest {
				t.Errorf("damaged %s: %v", name, err)
			}
			if _, err := Ensure(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); name != FileManifest && (err != nil || !bytes.Equal(got, good)) {
				t.Errorf("%s was not made again: %v", name, err)
			}
		}
	}
}

func TestNewestFetchedKernel(t *testing.T) {
	root := filepath.Join(t.TempDir(), "fetched")
	for _, release := range []string{"6.1.0-9-cloud", "6.1.0-56-cloud"} {
		image := fakeImage(release)
		p := &parts{Release: release, Vmlinuz: digest(image), vmlinuz: image, Modules: []module{{Name: "m", Digest: digest([]byte("m")), data: []byte("m")}}}
		if err := p.save(filepath.Join(root, release)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := newestFetched(root)
	if err == nil {
		err = p.load()
	}
	if err != nil || p.Release != "6.1.0-56-cloud" || string(p.Modules[0].data) != "m" {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := os.WriteFile(filepath.Join(root, p.Release, "m.ko"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if p, err = newestFetched(root); err != nil {
		t.Fatal(err)
	}
	if err := p.load(); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("err %v", err)
	}
	// Without a network the damage is told; with one, it is fetched again.
	apt(t, map[string]string{"apt-cache": "exit 100"})
	c := Config{Root: filepath.Dir(root), Agent: []byte("agent")}
	if _, err := Ensure(t.Context(), c); hostRelease() != "" && agentbox.CodeOf(err) == agentbox.Corrupt {
		t.Errorf("err %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, p.Release)); err == nil {
		t.Error("the damaged kernel is still there")
	}
}

func TestSweep(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{".new-1", ".fetch-2", "fetched/.new-3"} {
		if err := os.MkdirAll(filepath.Join(root, dir, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Ensure(t.Context(), Config{Root: root, Override: fakeKernel(t), Agent: []byte("agent")}); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{".new-*", ".fetch-*", "fetched/.new-*"} {
		if left, _ := filepath.Glob(filepath.Join(root, pattern)); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func TestErrorHints(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("not a kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]Config{
		"no such file": {Override: dir + "/none"}, "no kernel in it": {Override: dir}, "not a kernel": {Override: text},
	} {
		c.Root, c.Agent = t.TempDir(), []byte("agent")
		_, err := Ensure(t.Context(), c)
		if agentbox.CodeOf(err) != agentbox.Invalid || agentbox.AsError(err).Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Ensure(t.Context(), Config{Root: t.TempDir()}); agentbox.CodeOf(err) != agentbox.Missing {
		t.Errorf("no agent: %v", err)
	}
}

// apt puts scripts in the way of the host's apt tools.
func apt(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, body := range scripts {
		if err := durable.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

const knowsCloudKernel = `case $2 in
linux-image-cloud-*) echo "$2"; echo "  Depends: linux-image-6.1.0-9-cloud" ;;
linux-image-6.1.0-9-cloud) echo "  Depends: kmod"; echo " |Depends: linux-modules-6.1.0-9" ;;
*) exit 100 ;;
esac`

func TestFetchChoosesNewestPackage(t *testing.T) {
	apt(t, map[string]string{"apt-cache": knowsCloudKernel})
	packages, err := kernelPackages(t.Context(), "amd64")
	if err != nil || strings.Join(packages, " ") != "linux-image-6.1.0-9-cloud linux-modules-6.1.0-9" {
		t.Errorf("%v, %v", packages, err)
	}
}

func TestFetchErrorHints(t *testing.T) {
	for _, test := range []struct{ cache, get, hint string }{
		{"exit 100", "exit 0", "apt-get update"},
		{knowsCloudKernel, "echo 'E: Failed to fetch x  404  Not Found' >&2; exit 100", "apt-get update"},
		{knowsCloudKernel, "echo 'E: Temporary failure resolving' >&2; exit 100", "check the network"},
	} {
		apt(t, map[string]string{"apt-cache": test.cache, "apt-get": test.get, "dpkg-deb": "exit 0"})
		c := Config{Root: t.TempDir(), Progress: func(string) {}}
		_, err := c.fetch(t.Context())
		if err == nil || !strings.Contains(agentbox.AsError(err).Hint, test.hint) {
			t.Errorf("%v, hint %q, want %q", err, agentbox.AsError(err).Hint, test.hint)
		}
	}
	t.Setenv("PATH", t.TempDir())
	c := Config{Root: t.TempDir()}
	if _, err := c.fetch(t.Context()); agentbox.CodeOf(err) != agentbox.Missing {
		t.Errorf("without apt: %v", err)
	}
}

func TestCancelWhileLocked(t *testing.T) {
	root := t.TempDir()
	unlock, err := durable.Lock(t.Context(), filepath.Join(root, "lock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Ensure(ctx, Config{Root: root, Override: fakeKernel(t), Agent: []byte("agent")}); err == nil {
		t.Error("it did not wait")
	}
}

func TestCompareVersions(t *testing.T) {
	sorted := []string{"5.10.0", "6.1.0-9", "6.1.0-56", "6.1.0-56-cloud", "6.10.0"}
	for i := range sorted {
		for j := range sorted {
			if got := CompareReleases(sorted[i], sorted[j]); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s and %s: %d", sorted[i], sorted[j], got)
			}
		}
	}
}

// The kernel unpacks our archive; so must cpio, where the host has it.
func TestInitramfsIsCPIO(t *testing.T) {
	program, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("this host has no cpio")
	}
	cmd := exec.Command(program, "-tv")
	cmd.Stdin = bytes.NewReader(initramfs([]byte("agent"), nil))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "5,   1") {
		t.Errorf("%s %v", out, err)
	}
}

// Of several kernels in a directory the newest is taken: 6.10 follows 6.9.
func TestNewestKernelInDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, release := range []string{"6.9.0-3-amd64", "6.10.0-1-amd64", "6.1.0-40-amd64"} {
		if err := os.WriteFile(filepath.Join(dir, "vmlinuz-"+release), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := findVmlinuz(dir); err != nil || filepath.Base(got) != "vmlinuz-6.10.0-1-amd64" {
		t.Errorf("%s, %v", got, err)
	}
}
