package agent

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/vmm/guest/protocol"
)

// watching is a session that watches a directory.
func watching(t *testing.T, req protocol.WatchRequest) (next func() string, in io.WriteCloser) {
	t.Helper()
	f := start(t)
	c := f.connect()
	t.Cleanup(func() { c.Close() })
	s := f.session(c)
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RequestSubsystem(protocol.WatchSubsystem); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(in).Encode(req); err != nil {
		t.Fatal(err)
	}
	events := json.NewDecoder(out)
	return func() string {
		var e protocol.WatchEvent
		if err := events.Decode(&e); err != nil {
			return err.Error()
		}
		return strings.TrimSpace(e.Kind + " " + e.Name)
	}, in
}

// Each change is told in its order: of files that exist for an instant, that get another name or
// replace one, and of directories that are new, moved or gone.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	// In one change: os.WriteFile also truncates, which the kernel tells apart where it was read in between.
	write := func(name, text string) func() error {
		return func() error {
			f, err := os.OpenFile(at(name), os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				return err
			}
			_, err = f.WriteString(text)
			return errors.Join(err, f.Close())
		}
	}
	rename := func(from, to string) func() error { return func() error { return os.Rename(at(from), at(to)) } }
	if err := os.MkdirAll(at("old/deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	next, in := watching(t, protocol.WatchRequest{Dir: dir, Recursive: true, Hidden: ".tmp-"})
	if got := next(); got != "" {
		t.Fatalf("it begins with %q", got)
	}
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{write("a", ""), "create a"},
		{func() error { return os.Chmod(at("a"), 0o640) }, "chmod a"},
		{rename("a", "old/deep/b"), "rename a; create old/deep/b"},
		{write("old/deep/b", "text"), "write old/deep/b"},
		{func() error { return os.Remove(at("old/deep/b")) }, "remove old/deep/b"},
		{write(".tmp-1", "text"), ""},
		{rename(".tmp-1", "old/c"), "create old/c; write old/c"},
		{write(".tmp-2", "more"), ""},
		{rename(".tmp-2", "old/c"), "write old/c"},
		{write("d", ""), "create d"},
		{rename("d", "old/c"), "rename d; create old/c"},
		{rename("old", "new"), "rename old; create new; create new/c; create new/deep"},
		{write("new/deep/e", ""), "create new/deep/e"},
		{func() error { return os.RemoveAll(at("new/deep")) }, "remove new/deep/e; remove new/deep"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if step.want == "" {
			continue
		}
		for want := range strings.SplitSeq(step.want, "; ") {
			if got := next(); got != want {
				t.Fatalf("%q, want %q of %q", got, want, step.want)
			}
		}
	}
	in.Close()
	if got := next(); got != "EOF" {
		t.Error(got)
	}
}

func TestWatchWithoutDirectory(t *testing.T) {
	next, _ := watching(t, protocol.WatchRequest{Dir: filepath.Join(t.TempDir(), "none")})
	if got := next(); got != "EOF" {
		t.Error(got)
	}
}
