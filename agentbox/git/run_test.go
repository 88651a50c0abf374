package git

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
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
