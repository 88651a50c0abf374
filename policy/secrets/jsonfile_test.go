package secrets

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestJSONFile(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	file := filepath.Join(home, ".tool", "auth.json")
	put := func(content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	get := func(of string) (string, error) {
		t.Helper()
		r, err := Parse("file:" + of)
		if err != nil {
			t.Fatal(err)
		}
		return r.Value(t.Context(), Purpose{Name: "TOKEN"})
	}
	put(`{"tokens": {"access_token": "first", "expires": 3}, "a-b": "dash"}`)
	for of, want := range map[string]string{file + "#tokens.access_token": "first", file + "#a-b": "dash"} {
		if v, err := get(of); v != want || err != nil {
			t.Errorf("%s: %q, %v", of, v, err)
		}
	}
	put(`{"tokens": {"access_token": "renewed"}}`)
	if v, err := get(file + "#tokens.access_token"); v != "renewed" {
		t.Errorf("after its tool renewed it: %q, %v", v, err)
	}
	for of, want := range map[string]string{
		file + "#tokens":                 "is not text",
		file + "#tokens.refresh":         "has no tokens.refresh",
		file + "#tokens.access_token.x":  "has no tokens.access_token.x",
		"/etc/passwd#a":                  "not below your home",
		home + "/../x#a":                 "not below your home",
		filepath.Dir(file) + "#a":        "not a regular file",
		filepath.Dir(file) + "/nosuch#a": "no such file",
	} {
		if v, err := get(of); err == nil || !strings.Contains(err.Error(), want) || v != "" {
			t.Errorf("%s: %q, %v", of, v, err)
		}
	}
	put(`secret-but-not-json`)
	if _, err := get(file + "#a"); err == nil || strings.Contains(err.Error(), "secret-but") {
		t.Errorf("%v", err)
	}
}

// What a box or somebody else can put at the place of a token is not read.
func TestAttackJSONFile(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(home string) error
		want  string
	}{
		"a link for the file": {func(home string) error {
			return os.Symlink(filepath.Join(home, "other.json"), filepath.Join(home, "d", "f.json"))
		}, "is a link"},
		"a link for a directory": {func(home string) error {
			return os.Symlink(home, filepath.Join(home, "e"))
		}, "is a link"},
		"a file that others write": {func(home string) error {
			path := filepath.Join(home, "d", "f.json")
			if err := os.WriteFile(path, []byte(`{"a":"b"}`), 0o600); err != nil {
				return err
			}
			return os.Chmod(path, 0o666)
		}, "others may write"},
		"a directory that others write": {func(home string) error {
			if err := os.WriteFile(filepath.Join(home, "d", "f.json"), []byte(`{"a":"b"}`), 0o600); err != nil {
				return err
			}
			return os.Chmod(filepath.Join(home, "d"), 0o777)
		}, "others may write"},
		"a FIFO": {func(home string) error { return syscall.Mkfifo(filepath.Join(home, "d", "f.json"), 0o600) }, "not a regular file"},
		"a very large one": {func(home string) error {
			return os.WriteFile(filepath.Join(home, "d", "f.json"), make([]byte, maxJSON+1), 0o600)
		}, "larger than"},
	} {
		t.Run(what, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			if err := os.Mkdir(filepath.Join(home, "d"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(home, "other.json"), []byte(`{"a":"b"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := c.spoil(home); err != nil {
				t.Fatal(err)
			}
			path := "/d/f.json"
			if what == "a link for a directory" {
				path = "/e/other.json"
			}
			v, err := Reference{File, home + path + "#a"}.Value(t.Context(), Purpose{Name: "TOKEN"})
			if err == nil || !strings.Contains(err.Error(), c.want) || v != "" {
				t.Errorf("%q, %v", v, err)
			}
		})
	}
}
