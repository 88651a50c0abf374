package git

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// prepared is closed when git has said that it holds its locks.
type prepared struct {
	said  bytes.Buffer
	ready context.CancelFunc
}

func (p *prepared) Write(b []byte) (int, error) {
	p.said.Write(b)
	if bytes.Contains(p.said.Bytes(), []byte("prepare: ok")) {
		p.ready()
	}
	return len(b), nil
}

// A lock that git leaves behind would be in the way of every later git, the user's own included.
func TestInterruptedGitLeavesNoLock(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, _, err := Run(ctx, Call{Dir: dir, Args: []string{"init", "-q", "--bare", "."}}); err != nil {
		t.Fatal(err)
	}
	tree, _, err := Run(ctx, Call{Dir: dir, Args: []string{"hash-object", "-t", "tree", "-w", os.DevNull}})
	if err != nil {
		t.Fatal(err)
	}
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer feed.Close()
	if _, err := feed.WriteString("start\nupdate refs/x/y " + string(tree) + "prepare\n"); err != nil {
		t.Fatal(err)
	}
	_, _, err = Run(ctx, Call{Dir: dir, Args: []string{"update-ref", "--stdin"}, Stdin: in, Stdout: &prepared{ready: func() {
		if left, _ := filepath.Glob(filepath.Join(dir, "refs/x/*.lock")); len(left) != 1 {
			t.Errorf("git holds no lock: %v", left)
		}
		cancel()
	}}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "refs/x/*.lock")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// The git of a killed daemon goes on for a moment, and may hold the lock of a ref that the next
// daemon's git changes.
func TestGitWaitsForTheLockOfARef(t *testing.T) {
	dir := t.TempDir()
	run := func(stdin string, args ...string) string {
		out, _, err := Run(t.Context(), Call{Dir: dir, Args: args, Stdin: strings.NewReader(stdin)})
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	run("", "init", "-q", "--bare", ".")
	tree := run("", "hash-object", "-t", "tree", "-w", os.DevNull)
	lock := filepath.Join(dir, "refs/x/y.lock")
	if err := errors.Join(os.MkdirAll(filepath.Dir(lock), 0o700), os.WriteFile(lock, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	released := make(chan error, 1)
	time.AfterFunc(time.Second, func() { released <- os.Remove(lock) })
	run("", "update-ref", "refs/x/y", tree)
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	if got := run("", "rev-parse", "refs/x/y"); got != tree {
		t.Errorf("the ref is %s, not %s", got, tree)
	}
}
