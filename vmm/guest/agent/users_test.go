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

func TestTheImagesOwnUserIsTaken(t *testing.T) {
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

func TestAUserIsMadeWhereTheImageHasNone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user needs root")
	}
	root := writeTree(t, map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh", "etc/shadow": "root:*:1::::::\n", "etc/skel/.profile": "x",
		"etc/sudoers.d/README": "", "run/x": "",
	})
	b := booter{root: root}
	for range 2 { // the second time finds what the first made
		if err := b.findUser(); err != nil {
			t.Fatal(err)
		}
	}
	passwd, _ := os.ReadFile(root + "/etc/passwd")
	if string(passwd) != "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n" {
		t.Errorf("passwd %q", passwd)
	}
	if group, _ := os.ReadFile(root + "/etc/group"); string(group) != "agent:x:1000:\n" {
		t.Errorf("group %q", group)
	}
	if shadow, _ := os.ReadFile(root + "/etc/shadow"); !strings.Contains(string(shadow), "agent:!:") {
		t.Errorf("shadow %q", shadow)
	}
	if _, err := os.Stat(root + "/etc/gshadow"); err == nil {
		t.Error("gshadow was made")
	}
	if st, err := os.Stat(root + "/etc/sudoers.d/agentbox"); err != nil || st.Mode() != 0o440 {
		t.Errorf("sudoers: %v %v", st, err)
	}
	if _, err := os.Stat(root + "/home/agent/.profile"); err != nil {
		t.Error(err)
	}
}

func TestHostsKeepsWhatItKnows(t *testing.T) {
	got := hostsWith("127.0.0.1 localhost\n127.0.1.1 old\n10.0.0.1 db", "new")
	if got != "127.0.0.1 localhost\n10.0.0.1 db\n127.0.1.1\tnew\n" {
		t.Errorf("%q", got)
	}
	if got := hostsWith("", "new"); !strings.Contains(got, "127.0.0.1\tlocalhost\n") {
		t.Errorf("%q", got)
	}
}
