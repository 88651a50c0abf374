package rootfs

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
)

var testEpoch = time.Unix(1_700_000_000, 0)

// member is one entry of a test layer.
type member struct {
	tar.Header
	text string
}

func file(name, text string) member {
	return member{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text)), ModTime: testEpoch}, text}
}

func dir(name string) member {
	return member{Header: tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755, ModTime: testEpoch}}
}

func symlink(name, target string) member {
	return member{Header: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777, ModTime: testEpoch}}
}

func hardlink(name, target string) member {
	return member{Header: tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target, ModTime: testEpoch}}
}

func layer(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		if err := w.WriteHeader(&m.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func newSpool(t testing.TB) *Spool {
	t.Helper()
	s, err := NewSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func apply(t testing.TB, layers ...[]byte) *Tree {
	t.Helper()
	tree, spool := New(DefaultLimits, testEpoch), newSpool(t)
	for _, l := range layers {
		if err := tree.ApplyTar(t.Context(), bytes.NewReader(l), spool); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// write writes a tree and returns the image's path.
func write(t testing.TB, tree *Tree) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.erofs")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := tree.Write(t.Context(), f, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func reread(t testing.TB, path string) *Tree {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	tree, err := Read(t.Context(), f, DefaultLimits, testEpoch)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// list describes a whole tree, one line per name: everything an image can say about a file.
func list(t testing.TB, tree *Tree) string {
	t.Helper()
	var b strings.Builder
	v := newView(tree.Root())
	var walk func(dir *Inode, at string)
	walk = func(dir *Inode, at string) {
		for _, name := range dir.Names() {
			ino, p := dir.Child(name), at+"/"+name
			text, err := ino.ReadAll(1 << 20)
			if err != nil && ino.Type() == TypeRegular {
				t.Errorf("read %q: %v", p, err)
			}
			fmt.Fprintf(&b, "%q %o %d:%d links=%d dev=%x %q %q %v %v\n", p, ino.Mode, ino.UID, ino.GID, v.links[ino], ino.Device,
				ino.Target, text, ino.Xattrs, ino.ModTime.UnixNano())
			if ino.IsDir() {
				walk(ino, p)
			}
		}
	}
	walk(tree.Root(), "")
	return b.String()
}

func names(tree *Tree) string {
	var all []string
	var walk func(dir *Inode, at string)
	walk = func(dir *Inode, at string) {
		for _, name := range dir.Names() {
			ino := dir.Child(name)
			if ino.IsDir() {
				all = append(all, at+name+"/")
				walk(ino, at+name+"/")
				continue
			}
			all = append(all, at+name)
		}
	}
	walk(tree.Root(), "")
	return strings.Join(all, " ")
}

func odd(t testing.TB) []byte {
	full := member{tar.Header{
		Name: "bin/ping", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 70000, Gid: 80000, Size: 5000, ModTime: testEpoch.Add(123456789),
		PAXRecords: map[string]string{
			"SCHILY.xattr.security.capability":      "\x01\x00\x00\x02\x00\x20\x00\x00",
			"SCHILY.xattr.user.note":                "kept",
			"SCHILY.xattr.trusted.overlay.opaque":   "y",
			"SCHILY.xattr.security.selinux":         "label",
			"SCHILY.xattr.system.posix_acl_access":  "\x02\x00\x00\x00",
			"SCHILY.xattr.system.posix_acl_default": "\x02\x00\x00\x00",
		}, Format: tar.FormatPAX,
	}, strings.Repeat("x", 5000)}
	long := strings.Repeat("n", 255)
	members := []member{
		full, dir("many/"), file("empty", ""), file("sp ace\nnew\\line", "a"), file("caf\xe9", "latin"), file("日本", "utf8"), file(long, "long"),
		file("Case", "1"), file("case", "2"), file("-dash", "x"), file("!bang", "x"), symlink("dangling", "/no/where"),
		symlink("bin/sh", "ping"), hardlink("bin/ping6", "bin/ping"), hardlink("aaa", "bin/ping"), hardlink("link-to-symlink", "bin/sh"),
		{Header: tar.Header{Name: "dev/null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1, Devminor: 3}},
		{Header: tar.Header{Name: "dev/big", Typeflag: tar.TypeBlock, Mode: 0o600, Devmajor: 259, Devminor: 70000}},
		{Header: tar.Header{Name: "dev/pipe", Typeflag: tar.TypeFifo, Mode: 0o600}},
		{Header: tar.Header{Name: "tmp", Typeflag: tar.TypeDir, Mode: 0o1777, ModTime: testEpoch}},
	}
	for i := range 700 {
		members = append(members, file(fmt.Sprintf("many/file-with-a-longer-name-%04d", i), fmt.Sprint(i)))
	}
	members = append(members, hardlink("many/zzz", "many/file-with-a-longer-name-0300"))
	return layer(t, members...)
}

func TestImageKeepsEverything(t *testing.T) {
	tree := apply(t, odd(t))
	want := list(t, tree)
	for _, s := range []string{`"/bin/ping" 104755 70000:80000 links=3 dev=0 "" "xxx`, `security.capability:`, `user.note:kept`, `/caf\xe9"`, `"/dev/null" 20666`, "dev=103"} {
		if !strings.Contains(want, s) {
			t.Errorf("the tree lacks %s", s)
		}
	}
	for _, s := range []string{"overlay", "selinux"} {
		if strings.Contains(want, s) {
			t.Errorf("the tree has %s", s)
		}
	}
	path := write(t, tree)
	again := reread(t, path)
	if got := list(t, again); got != want {
		t.Errorf("read back:\n%s\nwritten:\n%s", firstDifference(got, want), "")
	}
	if a, b := again.Lookup("bin/ping", false), again.Lookup("aaa", false); a != b {
		t.Error("names of one file are two files in the image")
	}
	second := write(t, again)
	if a, b := mustRead(t, path), mustRead(t, second); !bytes.Equal(a, b) {
		t.Error("an image that is read and written again has other bytes")
	}
	fsck(t, path)
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i] + "\n" + y[i]
		}
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fsck lets another implementation of the format look at an image, where there is one.
func fsck(t *testing.T, path string) {
	if _, err := exec.LookPath("fsck.erofs"); err != nil {
		t.Log("fsck.erofs is not installed: not checked")
		return
	}
	if out, err := exec.Command("fsck.erofs", "--extract", path).CombinedOutput(); err != nil {
		t.Errorf("fsck.erofs: %v\n%s", err, out)
	}
}

func TestWriteIsReproducible(t *testing.T) {
	one := mustRead(t, write(t, apply(t, layer(t, file("a/x", "1"), file("b", "2")))))
	other := mustRead(t, write(t, apply(t, layer(t, file("b", "2"), file("gone", "3"), file("a/x", "1")), layer(t, file(".wh.gone", "")))))
	if !bytes.Equal(one, other) {
		t.Error("the order of members or a whiteout shows in the image")
	}
}

func TestLayers(t *testing.T) {
	lower := layer(t, dir("etc"), file("etc/a", "1"), file("etc/b", "1"), dir("etc/sub"), file("etc/sub/x", "1"), symlink("lib", "usr/lib"), dir("usr/lib"), file("usr/lib/c", "1"))
	const base = "etc/ etc/a etc/b etc/sub/ etc/sub/x lib usr/ usr/lib/ usr/lib/c"
	for name, c := range map[string]struct {
		upper []member
		want  string
	}{
		"nothing":                      {nil, base},
		"whiteout of a file":           {[]member{file("etc/.wh.a", "")}, "etc/ etc/b etc/sub/ etc/sub/x lib usr/ usr/lib/ usr/lib/c"},
		"whiteout of a directory":      {[]member{file(".wh.etc", "")}, "lib usr/ usr/lib/ usr/lib/c"},
		"whiteout of nothing":          {[]member{file("etc/.wh.zzz", ""), file("no/where/.wh.zzz", "")}, base},
		"whiteout after the new file":  {[]member{file("etc/a", "2"), file("etc/.wh.a", "")}, base},
		"whiteout before the new file": {[]member{file("etc/.wh.a", ""), file("etc/a", "2")}, base},
		"opaque":                       {[]member{dir("etc"), file("etc/.wh..wh..opq", ""), file("etc/n", "")}, "etc/ etc/n lib usr/ usr/lib/ usr/lib/c"},
		"opaque at the end":            {[]member{dir("etc"), file("etc/n", ""), file("etc/sub/y", ""), file("etc/.wh..wh..opq", "")}, "etc/ etc/n etc/sub/ etc/sub/y lib usr/ usr/lib/ usr/lib/c"},
		"opaque root":                  {[]member{file(".wh..wh..opq", ""), file("n", "")}, "n"},
		"aufs bookkeeping":             {[]member{dir(".wh..wh.plnk"), file(".wh..wh.aufs", "")}, base},
		"file over a directory":        {[]member{file("etc", "")}, "etc lib usr/ usr/lib/ usr/lib/c"},
		"directory over a file":        {[]member{dir("etc/a"), file("etc/a/x", "")}, "etc/ etc/a/ etc/a/x etc/b etc/sub/ etc/sub/x lib usr/ usr/lib/ usr/lib/c"},
		"through a symlink":            {[]member{file("lib/d", "")}, "etc/ etc/a etc/b etc/sub/ etc/sub/x lib usr/ usr/lib/ usr/lib/c usr/lib/d"},
		"directory over a symlink":     {[]member{dir("lib"), file("lib/d", "")}, "etc/ etc/a etc/b etc/sub/ etc/sub/x lib/ lib/d usr/ usr/lib/ usr/lib/c"},
		"whiteout through a symlink":   {[]member{file("lib/.wh.c", "")}, "etc/ etc/a etc/b etc/sub/ etc/sub/x lib usr/ usr/lib/"},
		"absolute and dotted names":    {[]member{file("/etc/./n", ""), file("./m", "")}, "etc/ etc/a etc/b etc/n etc/sub/ etc/sub/x lib m usr/ usr/lib/ usr/lib/c"},
		"link to a lower layer's file": {[]member{hardlink("etc/h", "etc/a")}, "etc/ etc/a etc/b etc/h etc/sub/ etc/sub/x lib usr/ usr/lib/ usr/lib/c"},
		"symlink out of the root":      {[]member{symlink("out", "../../../../usr"), file("out/n", "")}, "etc/ etc/a etc/b etc/sub/ etc/sub/x lib out usr/ usr/lib/ usr/lib/c usr/n"},
		"symlink to nowhere as parent": {[]member{symlink("s", "/new/dir"), file("s/n", "")}, "etc/ etc/a etc/b etc/sub/ etc/sub/x lib new/ new/dir/ new/dir/n s usr/ usr/lib/ usr/lib/c"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := apply(t, lower, layer(t, c.upper...))
			if got := names(tree); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := names(reread(t, write(t, tree))); got != c.want {
				t.Errorf("the image has %s", got)
			}
		})
	}
}

func TestUpperLayerKeepsUnmentionedAttributes(t *testing.T) {
	lower := dir("etc")
	lower.Mode, lower.Uid = 0o700, 7
	tree := apply(t, layer(t, lower, file("etc/a", "old"), hardlink("b", "etc/a")), layer(t, file("etc/a", "new")))
	if ino := tree.Lookup("etc", false); ino.Mode&0o777 != 0o700 || ino.UID != 7 {
		t.Errorf("a directory that the layer only implies became %o %d", ino.Mode, ino.UID)
	}
	a, _ := tree.Lookup("etc/a", false).ReadAll(10)
	b, _ := tree.Lookup("b", false).ReadAll(10)
	if string(a) != "new" || string(b) != "old" {
		t.Errorf("after one of two names was replaced they are %q and %q", a, b)
	}
}

func TestRefused(t *testing.T) {
	loop := []member{symlink("l", "l"), file("l/x", "")}
	for name, c := range map[string]struct {
		members []member
		code    agentbox.Code
		say     string
	}{
		"leaving the root":         {[]member{file("../etc/passwd", "x")}, agentbox.Corrupt, "leave"},
		"leaving it later":         {[]member{file("a/../../b", "x")}, agentbox.Corrupt, "leave"},
		"dots inside":              {[]member{file("a/../b", "x")}, agentbox.Corrupt, "leave"},
		"whiteout leaving":         {[]member{file("../.wh.x", "")}, agentbox.Corrupt, "leave"},
		"whiteout of the parent":   {[]member{file("a/.wh...", "")}, agentbox.Corrupt, "whiteout"},
		"hard link leaving":        {[]member{hardlink("a", "../../etc/passwd")}, agentbox.Corrupt, "does not exist"},
		"hard link to nothing":     {[]member{hardlink("a", "b")}, agentbox.Corrupt, "does not exist"},
		"hard link to a directory": {[]member{dir("b"), hardlink("a", "b")}, agentbox.Corrupt, "directory"},
		"below a file":             {[]member{file("a", ""), file("a/b", "")}, agentbox.Corrupt, "not a directory"},
		"symlink loop":             {loop, agentbox.Corrupt, "symlinks"},
		"long name":                {[]member{file(strings.Repeat("n", 256), "")}, agentbox.Corrupt, "256 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := New(DefaultLimits, testEpoch)
			err := tree.ApplyTar(t.Context(), bytes.NewReader(layer(t, c.members...)), newSpool(t))
			if agentbox.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.say) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestBrokenArchives(t *testing.T) {
	whole := layer(t, file("a", strings.Repeat("x", 3000)), file("b", "y"))
	for name, b := range map[string][]byte{
		"cut in a header":  whole[:100],
		"cut in a file":    whole[:2000],
		"flipped checksum": append([]byte{whole[0] ^ 1}, whole[1:]...),
	} {
		err := New(DefaultLimits, testEpoch).ApplyTar(t.Context(), bytes.NewReader(b), newSpool(t))
		if agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBombs(t *testing.T) {
	huge := tar.Header{Name: "huge", Typeflag: tar.TypeReg, Size: 1 << 50, Mode: 0o644}
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&huge); err != nil {
		t.Fatal(err)
	}
	spool := newSpool(t)
	err := New(DefaultLimits, testEpoch).ApplyTar(t.Context(), &b, spool)
	if agentbox.CodeOf(err) != agentbox.Invalid || spool.end != 0 {
		t.Errorf("a huge file: %v, %d bytes written", err, spool.end)
	}
	few := Limits{Bytes: 1000, Inodes: 10}
	var links []member
	links = append(links, file("a", ""))
	for i := range 20 {
		links = append(links, hardlink(fmt.Sprint(i), "a"))
	}
	for name, l := range map[string][]byte{
		"many bytes": layer(t, file("a", strings.Repeat("x", 600)), file("b", strings.Repeat("x", 600))),
		"many links": layer(t, links...),
		"many dirs":  layer(t, file("1/2/3/4/5/6/7/8/9/10/11/12", "")),
	} {
		err := New(few, testEpoch).ApplyTar(t.Context(), bytes.NewReader(l), newSpool(t))
		if agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Symlinks can make short names mean ever longer paths.
func TestDeepPathsBySymlinks(t *testing.T) {
	var members []member
	step := strings.Repeat("d/", 500)
	at := "s0"
	members = append(members, symlink("s0", "/"+step))
	for i := 1; i < 20; i++ {
		members = append(members, file(at+"/"+step+"f", ""), symlink(fmt.Sprintf("s%d", i), "/"+at+"/"+step))
		at = fmt.Sprintf("s%d", i)
	}
	err := New(DefaultLimits, testEpoch).ApplyTar(t.Context(), bytes.NewReader(layer(t, members...)), newSpool(t))
	if agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("got %v", err)
	}
}

func TestApplyCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(DefaultLimits, testEpoch).ApplyTar(ctx, bytes.NewReader(layer(t, file("a", ""))), newSpool(t)); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}

// Names, targets of symlinks and attributes stay in memory, where a layer of a few compressed
// kilobytes would have them fill it.
func TestMemoryIsBounded(t *testing.T) {
	limits := Limits{Bytes: 1 << 30, Inodes: 1000, Memory: 64 << 10}
	long := strings.Repeat("x", 4000)
	var attrs, links, names []member
	for i := range 40 {
		m := file(fmt.Sprint(i), "")
		m.PAXRecords = map[string]string{xattrRecord + "user.x": long}
		attrs, links = append(attrs, m), append(links, symlink(fmt.Sprint(i), long))
	}
	for i := range 500 {
		names = append(names, file(fmt.Sprintf("%03d%s", i, long[:200]), ""))
	}
	for what, members := range map[string][]member{"attributes": attrs, "symlinks": links, "names": names} {
		err := New(limits, testEpoch).ApplyTar(t.Context(), bytes.NewReader(layer(t, members...)), newSpool(t))
		if agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// An image is read within the bounds within which it can be made, so each name of a file counts.
func TestReadCountsNames(t *testing.T) {
	members := []member{file("f", "x")}
	for i := range 20 {
		members = append(members, hardlink(fmt.Sprint("l", i), "f"))
	}
	f, err := os.Open(write(t, apply(t, layer(t, members...))))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Read(t.Context(), f, Limits{Bytes: 1 << 20, Inodes: 10, Memory: 1 << 20}, testEpoch); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("21 names, and 10 are allowed: %v", err)
	}
}
