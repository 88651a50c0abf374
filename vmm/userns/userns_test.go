package userns

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"agentbox/agentbox"
)

func TestIDMaps(t *testing.T) {
	for _, c := range []struct {
		own  int
		free Range
		want []Range
	}{
		{501, Range{0, 100000, 65536}, []Range{{0, 100000, 1000}, {1000, 501, 1}, {1001, 101000, 64535}}},
		{0, Range{0, 1 << 30, 65536}, []Range{{0, 1 << 30, 1000}, {1000, 0, 1}, {1001, 1<<30 + 1000, 64535}}},
		{7, Range{0, 5000, 1000}, []Range{{0, 5000, 1000}, {1000, 7, 1}}},
	} {
		if got := mapAround(c.own, c.free); !reflect.DeepEqual(got, c.want) {
			t.Errorf("around(%d, %v) = %v, want %v", c.own, c.free, got, c.want)
		}
	}
}

func TestSubordinateIDs(t *testing.T) {
	me := &user.User{Username: "ann", Uid: "501"}
	for text, want := range map[string]Range{
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
	if err := explainBy(settings, syscall.EPERM); agentbox.CodeOf(err) != agentbox.Missing || !strings.Contains(err.Error(), "operation not permitted") {
		t.Errorf("where no setting forbids them: %v", err)
	}
	write("user/max_user_namespaces", "0")
	err := explainBy(settings, syscall.ENOSPC)
	var said *agentbox.Error
	if !errors.As(err, &said) || !strings.HasSuffix(err.Error(), ": user.max_user_namespaces is 0") || said.Hint != "as root: sysctl -w user.max_user_namespaces=65536" {
		t.Errorf("where one does: %v", err)
	}
	if err := explainBy(settings, syscall.ENOENT); agentbox.CodeOf(err) == agentbox.Missing {
		t.Errorf("what is not about namespaces: %v", err)
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
	if _, err := HasForeign(deepTree(t)); err != nil {
		t.Error(err)
	}
}
