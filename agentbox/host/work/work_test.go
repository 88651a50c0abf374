package work

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/home"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/guest/protocol"
)

// localBox is the guest of a box whose workspace is a directory of this machine.
type localBox struct {
	dir    string
	closed *int
}

// feed copies what a command is to read into a pipe, so that the end of the command need not wait
// for what is never written.
func feed(r io.Reader) *os.File {
	out, in, err := os.Pipe()
	if err != nil || r == nil {
		return nil
	}
	go func() {
		_, _ = io.Copy(in, r)
		in.Close()
	}()
	return out
}

func (l localBox) Exec(ctx context.Context, c environment.Command) (environment.Status, error) {
	if c.Dir != protocol.WorkspaceDir {
		return environment.Status{}, errors.New("it runs in " + c.Dir)
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = l.dir, feed(c.Stdin), c.Stdout, c.Stderr, os.Environ()
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	err := cmd.Run()
	if cmd.Stdin != nil {
		cmd.Stdin.(*os.File).Close()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return environment.Status{Code: exit.ExitCode()}, nil
	}
	return environment.Status{}, err
}

func (l localBox) Files(context.Context, string, io.Writer) error {
	return errors.New("git could say what the files are")
}

func (l localBox) Close() error { *l.closed++; return nil }

func git(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", "git() { command git -c user.name=a -c user.email=a@b \"$@\"; }\n"+script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// made is a box that was made of a checkout with one commit. closed counts its connections that
// were closed.
func made(t *testing.T) (w Work, checkout, box string, closed *int) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CONFIG_SYSTEM", "/dev/null")
	h := home.Home{Dir: t.TempDir()}
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	checkout, box, closed = t.TempDir(), filepath.Join(t.TempDir(), "box"), new(int)
	git(t, checkout, "git init -q -b main; echo one >file; git add .; git commit -qm one; git clone -q . "+box)
	head, err := exec.Command("git", "-C", checkout, "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	b := Box{
		ID: agentbox.NewBoxID(), Name: "mine", Directory: checkout, Commit: strings.TrimSpace(string(head)),
		Open: func(context.Context) (Guest, error) { return localBox{box, closed}, nil },
	}
	w = Work{Home: h, Enter: func(_ context.Context, ref api.BoxRef, _ agentbox.Progress) (Box, error) {
		if ref.Box != b.Name {
			return Box{}, agentbox.Errorf(agentbox.NotFound, "no box %q", ref.Box)
		}
		return b, nil
	}}
	return w, checkout, box, closed
}

var mine = api.BoxRef{Box: "mine"}

// pulled keeps the work of a box and pulls it.
func pulled(t *testing.T, w Work, req api.PullRequest) (api.PulledWork, error) {
	t.Helper()
	out, kept, err := w.Offer(t.Context(), req.BoxRef, nil)
	if err != nil {
		return out, err
	}
	repo, err := workspace.Describe(t.Context(), req.Into)
	if err != nil {
		t.Fatal(err)
	}
	return Pull(t.Context(), out, kept, repo, req.Branch)
}

func TestUnsaved(t *testing.T) {
	w, checkout, box, closed := made(t)
	if got, err := w.Unsaved(t.Context(), mine, nil); err != nil || got.Commits+got.Files != 0 || got.Name != "mine" {
		t.Errorf("nothing was done: %+v, %v", got, err)
	}
	git(t, box, "echo two >file; git commit -qam two; echo three >new")
	got, err := w.Unsaved(t.Context(), mine, nil)
	if err != nil || got.Commits != 1 || !slices.Equal(got.Titles, []string{"two"}) || got.Files != 1 || !slices.Equal(got.Paths, []string{"new"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.RemoveAll(checkout); err != nil {
		t.Fatal(err)
	}
	// Without its checkout all that is in the box would be lost.
	if got, err := w.Unsaved(t.Context(), mine, nil); err != nil || got.Commits != 2 || got.Files != 1 {
		t.Errorf("without a checkout: %+v, %v", got, err)
	}
	if *closed != 3 {
		t.Errorf("%d connections were closed", *closed)
	}
	if _, err := w.Unsaved(t.Context(), api.BoxRef{Box: "other"}, nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("no such box: %v", err)
	}
}

// A box names ten of what it has, and counts the rest.
func TestUnsavedIsBounded(t *testing.T) {
	w, _, box, _ := made(t)
	git(t, box, `for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i >"f$i"; git add .; git commit -qm "n $i"; done; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo >"u$i"; done`)
	got, err := w.Unsaved(t.Context(), mine, nil)
	if err != nil || got.Commits != 12 || len(got.Titles) != maxNamed || got.Files != 12 || len(got.Paths) != maxNamed || got.Titles[0] != "n 12" {
		t.Errorf("%+v, %v", got, err)
	}
}

// What git in a box cannot look at is named, and not taken for nothing.
func TestSilentGitIsReported(t *testing.T) {
	w, _, box, _ := made(t)
	if err := os.RemoveAll(filepath.Join(box, ".git")); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Unsaved(t.Context(), mine, nil); err != nil || len(got.Missing) != 1 || !strings.Contains(got.Missing[0], "has no .git any more") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDiffAndPull(t *testing.T) {
	w, checkout, box, _ := made(t)
	if _, err := pulled(t, w, api.PullRequest{BoxRef: mine, Into: checkout}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("nothing was done: %v", err)
	}
	git(t, box, "echo two >file; git commit -qam two")
	d, err := w.Diff(t.Context(), api.DiffRequest{BoxRef: mine}, nil)
	if err != nil || d.Name != "mine" || d.Commits != 1 || !strings.Contains(string(d.Text), "+two") || len(d.Changes) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	p, err := pulled(t, w, api.PullRequest{BoxRef: mine, Into: checkout})
	if err != nil || p.Branch != "agentbox/mine" || p.Commits != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	if out, err := exec.Command("git", "-C", checkout, "show", "agentbox/mine:file").CombinedOutput(); err != nil || string(out) != "two\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// The branch of an earlier box may be the only place that has its work. A later box with the same
// name needs no other command for that, the next time neither.
func TestPullSparesBranchOfEarlierBox(t *testing.T) {
	w, checkout, box, _ := made(t)
	git(t, checkout, "git branch agentbox/mine $(git commit-tree -p HEAD -m earlier HEAD^{tree})")
	for _, text := range []string{"two", "three"} {
		git(t, box, "echo "+text+" >file; git commit -qam "+text)
		p, err := pulled(t, w, api.PullRequest{BoxRef: mine, Into: checkout})
		if err != nil || p.Branch != "agentbox/mine-2" {
			t.Fatalf("%+v, %v", p, err)
		}
		for branch, want := range map[string]string{"agentbox/mine": "earlier\n", "agentbox/mine-2": text + "\n"} {
			if out, err := exec.Command("git", "-C", checkout, "log", "-1", "--format=%s", branch).CombinedOutput(); err != nil || string(out) != want {
				t.Errorf("%s: %q, %v", branch, out, err)
			}
		}
	}
	if _, err := pulled(t, w, api.PullRequest{BoxRef: mine, Into: checkout, Branch: "agentbox/mine"}); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("by its name: %v", err)
	}
}

// Where no branch can be made, no other name is tried for ever.
func TestPullEndsIfNoBranchFits(t *testing.T) {
	w, checkout, box, _ := made(t)
	git(t, checkout, "git branch agentbox")
	git(t, box, "echo two >file; git commit -qam two")
	if p, err := pulled(t, w, api.PullRequest{BoxRef: mine, Into: checkout}); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("%+v, %v", p, err)
	}
}

// flood is a box whose git was replaced by something that does not stop.
type flood struct {
	localBox
	complains bool
}

func (f flood) Exec(_ context.Context, c environment.Command) (environment.Status, error) {
	w, line, most := c.Stdout, []byte("commit "+strings.Repeat("a", 40)+" "+strings.Repeat("long title ", 500)+"\n"), 128<<20
	if f.complains {
		w, line, most = c.Stderr, []byte("\x1b[2Jno\n"), 1<<20
	}
	for n := 0; n < most; n += len(line) {
		if _, err := w.Write(line); err != nil {
			return environment.Status{}, err
		}
	}
	_, err := io.WriteString(c.Stdout, "end\n")
	return environment.Status{Code: 1}, err
}

// What a box says is held in memory, so it is bounded; what is quoted of it is for a terminal.
func TestOversizedStatusIsRefused(t *testing.T) {
	w, _, box, closed := made(t)
	for _, complains := range []bool{false, true} {
		w.Enter = func(context.Context, api.BoxRef, agentbox.Progress) (Box, error) {
			open := func(context.Context) (Guest, error) { return flood{localBox{box, closed}, complains}, nil }
			return Box{Name: "mine", Directory: box, Open: open}, nil
		}
		_, err := w.Unsaved(t.Context(), mine, nil)
		if agentbox.CodeOf(err) != agentbox.Conflict || len(err.Error()) > 8<<10 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("complains %v: %.200v", complains, err)
		}
	}
}
