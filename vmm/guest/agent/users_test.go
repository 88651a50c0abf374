//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func uid1000(_ string, uid int) bool { return uid == boxUID }

func TestImageUser(t *testing.T) {
	root := writeTree(t, map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/bash\nbroken line\nnode:x:1000:1001::/home/node:/bin/zsh\n",
		"etc/group":  "sudo:x:27:other,node\ndocker:x:99:node\nnode:x:1001:\n",
		"bin/bash":   "",
	})
	u, err := lookupUser(root, uid1000)
	if err != nil {
		t.Fatal(err)
	}
	// Its shell is not in the image.
	if u.Name != "node" || u.GID != 1001 || u.Home != "/home/node" || u.Shell != "/bin/bash" || !slices.Equal(u.Groups, []int{27, 99}) {
		t.Errorf("user %+v", u)
	}
}

func TestImageWithoutUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user needs root")
	}
	b := booter{root: writeTree(t, map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/sh", "run/x": ""})}
	if err := b.findUser(); err != nil {
		t.Fatal(err)
	}
	if u := b.user; u.UID != 1000 || u.GID != 1000 || u.Shell != "/bin/sh" || u.Home != "/" {
		t.Errorf("user %+v", u)
	}
	if st, err := os.Stat(b.root + "/run/user/1000"); err != nil || st.Mode() != 0o700|os.ModeDir {
		t.Errorf("runtime files: %v, %v", st, err)
	}
}

func TestAddHostEntry(t *testing.T) {
	got := addHostEntry("127.0.0.1 localhost\n127.0.1.1 old\n10.0.0.1 db", "new")
	if got != "127.0.0.1 localhost\n10.0.0.1 db\n127.0.1.1\tnew\n" {
		t.Errorf("%q", got)
	}
	if got := addHostEntry("", "new"); !strings.Contains(got, "127.0.0.1\tlocalhost\n") {
		t.Errorf("%q", got)
	}
}
