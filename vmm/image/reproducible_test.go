package image

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"agentbox/vmm/image/rootfs"
)

// packageSets are what TestReproducible builds twice: docs/images.md has the result of each.
var packageSets = map[string][]string{
	"plain":      nil,
	"c":          {"gcc", "git", "libc6-dev", "make"},
	"postgresql": {"git", "make", "postgresql"},
	"mariadb":    {"mariadb-server"},
	"redis":      {"redis-server"},
	"ssh":        {"openssh-server", "rsync"},
	"python":     {"python3-pip", "python3-venv"},
	"node":       {"nodejs", "npm"},
	"java":       {"default-jre-headless"},
	"chromium":   {"chromium", "dbus", "fonts-dejavu"},
}

// TestReproducible builds each set twice and lists every file that differs. It takes minutes and a
// mirror, so `make reproducible` asks for it.
func TestReproducible(t *testing.T) {
	if os.Getenv("AGENTBOX_REPRODUCIBLE") == "" {
		t.Skip("make reproducible runs this")
	}
	needMmdebstrap(t)
	for _, name := range slices.Sorted(maps.Keys(packageSets)) {
		t.Run(name, func(t *testing.T) {
			r := Recipe{Packages: packageSets[name]}
			s := newStore(t)
			first, err := s.Rebuild(t.Context(), r, nil)
			if err != nil {
				t.Fatal(err)
			}
			second, err := s.Rebuild(t.Context(), r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(first.Versions, second.Versions) {
				t.Fatal("the mirror changed in between; run it again")
			}
			if list := differences(t, first, second); len(list) > 0 {
				t.Errorf("%d files differ:\n%s", len(list), strings.Join(list, "\n"))
			} else if first.Digest != second.Digest {
				t.Error("the same files are not the same image")
			}
			t.Logf("%d packages, %d MiB, %s", len(first.Versions), first.Size>>20, first.Digest.Short())
		})
	}
}

// differences lists what is not the same in two images.
func differences(t *testing.T, a, b Image) []string {
	t.Helper()
	if a.Digest == b.Digest {
		return nil
	}
	was, is := facts(t, a), facts(t, b)
	var list []string
	for name := range maps.Keys(was) {
		if is[name] != was[name] {
			list = append(list, fmt.Sprintf("%s: %s, then %s", name, was[name], is[name]))
		}
	}
	for name := range is {
		if _, ok := was[name]; !ok {
			list = append(list, name+": nothing, then "+is[name])
		}
	}
	slices.Sort(list)
	return list
}

// facts describes every file of an image in a line.
func facts(t *testing.T, img Image) map[string]string {
	t.Helper()
	all := map[string]string{}
	var walk func(at string, ino *rootfs.Inode)
	walk = func(at string, ino *rootfs.Inode) {
		var attrs bytes.Buffer
		for _, name := range slices.Sorted(maps.Keys(ino.Xattrs)) {
			fmt.Fprintf(&attrs, " %s=%x", name, ino.Xattrs[name])
		}
		all[at] = fmt.Sprintf("mode %o of %d:%d at %s, %d bytes %s%s %s", ino.Mode, ino.UID, ino.GID,
			ino.ModTime.UTC().Format("2006-01-02T15:04:05.999999999"), ino.Size, ino.Target, attrs.String(), sumOf(t, ino))
		for _, name := range ino.Names() {
			walk(path.Join(at, name), ino.Child(name))
		}
	}
	walk("/", readImage(t, img).Lookup("/", false))
	return all
}

func sumOf(t *testing.T, ino *rootfs.Inode) string {
	t.Helper()
	if ino.Content == nil {
		return ""
	}
	r, err := ino.Content.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil)[:6])
}
