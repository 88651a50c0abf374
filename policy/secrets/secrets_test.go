package secrets

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func noEnv(string) (string, bool) { return "", false }

func parse(t *testing.T, s string) Reference {
	t.Helper()
	r, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReferences(t *testing.T) {
	for _, s := range []string{"env:TOKEN", "file:/etc/token", "command:pass show x", "keyring", "keyring:work"} {
		if got := parse(t, s).String(); got != s {
			t.Errorf("%q is written %q", s, got)
		}
	}
	for _, s := range []string{"", "env", "env:", "file:", "file:token", "command: ", "vault:x", "hunter2"} {
		if r, err := Parse(s); err == nil {
			t.Errorf("%q is read as %v", s, r)
		}
	}
}

func TestValues(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) { return "from-env", name == "TOKEN" }
	for in, want := range map[string]string{
		"env:TOKEN":            "from-env",
		"file:" + file:         "from-file",
		"command:echo plain;:": "plain",
		"command:printf 'username=ada\\npassword=p=w\\n';:":     "p=w",
		"command:f() { cat; echo password=$1; }; f":             "get",
		"command:f() { sed -n 's/^host=/password=for-/p'; }; f": "for-git.example",
		"command:printf 'printed without a line break' && true": "printed without a line break",
	} {
		got, err := parse(t, in).Value(t.Context(), Purpose{Name: "N", Host: "git.example", Env: env})
		if err != nil || got != want {
			t.Errorf("%s gives %q, %v; want %q", in, got, err, want)
		}
	}
}

// No failure says what was read.
func TestInvalidValues(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	for in, want := range map[string]string{
		"env:TOKEN":                               "is not set",
		"file:" + dir + "/missing":                "no such file",
		write("empty", "\n"):                      "it is empty",
		write("lines", "hunter2\nX-Evil: 1\n"):    "line break",
		write("nul", "hunter2\x00"):               "control character",
		write("long", strings.Repeat("x", 1<<15)): "longer than",
		"command:echo hunter2; exit 3;:":          "exit status 3",
		"command:echo username=hunter2;:":         "it is empty",
		"command:yes hunter2":                     "it prints too much",
	} {
		_, err := parse(t, in).Value(t.Context(), Purpose{Name: "N", Env: noEnv})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(strings.TrimPrefix(err.Error(), "secret N from "+in), "hunter2") {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

// Between two policies a secret that is kept elsewhere now has no value; the others keep theirs.
func TestResolverRetains(t *testing.T) {
	k := NewResolver(nil)
	was, is := Source{From: Reference{Env, "WAS"}}, Source{From: Reference{Env, "IS"}}
	k.Set(map[string]Source{"MOVED": was, "STAYS": was, "GOES": was}, map[string]string{"WAS": "old", "IS": "new"})
	next := map[string]Source{"MOVED": is, "STAYS": was}
	k.Retain(next)
	for name, want := range map[string]string{"MOVED": "", "STAYS": "old", "GOES": ""} {
		if got, err := k.Value(t.Context(), name); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	k.Set(next, nil)
	if got, err := k.Value(t.Context(), "MOVED"); got != "new" {
		t.Errorf("%q %v", got, err)
	}
}

func TestResolverSeesRotationAndRevocation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k := NewResolver(nil)
	now := time.Now()
	k.now = func() time.Time { return now }
	k.Set(map[string]Source{"T": {From: Reference{File, file}}, "E": {From: Reference{Env, "V"}}}, map[string]string{"V": "one"})
	want := func(name, want string) {
		t.Helper()
		got, err := k.Value(t.Context(), name)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	write("first")
	want("T", "first")
	write("second")
	want("T", "first")
	now = now.Add(cacheTime + time.Second)
	want("T", "second")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	now = now.Add(cacheTime + time.Second)
	want("T", "")
	want("E", "one")
	k.Set(map[string]Source{"E": {From: Reference{Env, "V"}}}, nil)
	want("E", "one") // the variable is still known
	want("T", "")    // the secret is not
}

// A command is asked for the password of one host while the secret is given to another: the second
// question is not answered with what the first one brings.
func TestValueOfSourceHost(t *testing.T) {
	dir := t.TempDir()
	begun, release := filepath.Join(dir, "begun"), filepath.Join(dir, "release")
	for _, fifo := range []string{begun, release} {
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// For the first host it answers when it is told to.
	command := Reference{Command, fmt.Sprintf(`f() { h=$(sed -n s/^host=//p); if [ "$h" = first.example ]; then echo > %s; cat %s; fi; echo password=of-$h; }; f`, begun, release)}
	k := NewResolver(nil)
	k.Set(map[string]Source{"T": {From: command, Host: "first.example"}}, nil)
	first := make(chan error, 1)
	go func() {
		v, err := k.Value(t.Context(), "T")
		if err == nil {
			err = fmt.Errorf("the value of the first host is given out: %q", v)
		} else {
			err = nil
		}
		first <- err
	}()
	if _, err := os.ReadFile(begun); err != nil {
		t.Fatal(err)
	}
	k.Set(map[string]Source{"T": {From: command, Host: "second.example"}}, nil)
	v, err := k.Value(t.Context(), "T")
	if v != "of-second.example" {
		t.Fatalf("%q, %v", v, err)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
}
