package staging

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"
	"agentbox/vmm"
)

// copies is a driver that makes its own form of a workspace: a copy. fail is what happens to it.
type copies struct {
	vmm.Driver // none: these tests start no machine
	fail       error
}

func (c *copies) ReserveWorkspace(_ context.Context, path string, _ int64) error {
	return os.Mkdir(path, 0o700)
}

func (c *copies) NewWorkspace(_ context.Context, path, tree string, _ int64) error {
	if c.fail != nil {
		return c.fail
	}
	return os.CopyFS(path, os.DirFS(tree))
}

// inPlace is a driver whose workspaces are directories of this machine.
type inPlace struct {
	copies
	finished []string
}

func (i *inPlace) FinishWorkspace(path string) error {
	i.finished = append(i.finished, path)
	return nil
}

// repository makes a checkout with a commit, a changed file and an untracked one.
func repository(t *testing.T) workspace.Repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CONFIG_SYSTEM", "/dev/null")
	dir := t.TempDir()
	script := `git init -q -b main && echo one >tracked && git add . && git -c user.name=a -c user.email=a@b commit -qm one && echo two >tracked && echo new >untracked`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	repo, err := workspace.Describe(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// stager adds what setup made, which is one file.
func stager(made string) Stager {
	return Stager{Log: slog.New(slog.DiscardHandler), Overlay: func(_ context.Context, key agentbox.Digest, add func(io.Reader) error) error {
		if key.IsZero() {
			return nil
		}
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		err := w.WriteHeader(&tar.Header{Name: "made", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(made))})
		_, werr := io.WriteString(w, made)
		return errors.Join(err, werr, w.Close(), add(&b))
	}}
}

// reserved is a target that the kind of a driver has reserved, with the directory of its files.
func reserved(t *testing.T, d vmm.Driver, repo workspace.Repo) (place.Kind, Target, string) {
	t.Helper()
	l := local.Local{Home: home.Home{Dir: t.TempDir()}, Driver: func(agentbox.Isolation) (vmm.Driver, error) { return d, nil }}
	kind, err := l.Kind(agentbox.GVisor)
	if err != nil {
		t.Fatal(err)
	}
	to := Target{Spec: place.Spec{ID: agentbox.NewBoxID(), Workspace: 1, Disk: 1 << 20}, Commit: repo.Commit}
	dir := l.Home.Box(to.Spec.ID).Dir
	if err := errors.Join(os.MkdirAll(dir, 0o700), kind.Reserve(t.Context(), to.Spec)); err != nil {
		t.Fatal(err)
	}
	return kind, to, dir
}

// A workspace has the repository's files as they are and what setup made of its key, whatever form
// the driver gives it.
func TestFill(t *testing.T) {
	repo := repository(t)
	direct := &inPlace{}
	for name, d := range map[string]vmm.Driver{"staged": &copies{}, "in place": direct} {
		for _, key := range []agentbox.Digest{{}, {1}} {
			kind, to, dir := reserved(t, d, repo)
			to.Setup, to.Baseline = key, filepath.Join(dir, "begin")
			output := ""
			err := stager("by setup").Fill(t.Context(), kind, to, source.Checkout(repo), func(e agentbox.Event) { output += e.Detail })
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := map[string]string{"tracked": "two\n", "untracked": "new\n", "made": "by setup"}
			if key.IsZero() {
				delete(want, "made")
			}
			for file, text := range want {
				if b, err := os.ReadFile(filepath.Join(dir, "workspace-1", file)); err != nil || string(b) != text {
					t.Errorf("%s: %s is %q, %v", name, file, b, err)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "workspace-1", "made")); key.IsZero() && err == nil {
				t.Errorf("%s: what setup made is there without a key", name)
			}
			if _, err := os.Stat(filepath.Join(dir, "staging")); err == nil {
				t.Errorf("%s: the staging directory is left", name)
			}
			if b, err := os.ReadFile(filepath.Join(to.Baseline, "tree")); err != nil || len(b) == 0 {
				t.Errorf("%s: what was uncommitted is not written down: %v", name, err)
			}
			if !strings.Contains(output, "main at "+repo.Commit[:12]) {
				t.Errorf("%s: said %q", name, output)
			}
		}
	}
	if len(direct.finished) != 2 {
		t.Errorf("finished %v", direct.finished)
	}
}

// What setup made counts: a workspace that it makes larger than its box's disk is refused.
func TestFillEnforcesSize(t *testing.T) {
	repo := repository(t)
	d := &inPlace{}
	kind, to, _ := reserved(t, d, repo)
	to.Setup = agentbox.Digest{1}
	err := stager(strings.Repeat("x", 2<<20)).Fill(t.Context(), kind, to, source.Checkout(repo), nil)
	if agentbox.CodeOf(err) != agentbox.CodeOf(workspace.TooLarge(to.Spec.Disk)) || len(d.finished) != 0 {
		t.Errorf("%v, finished %v", err, d.finished)
	}
}

// A driver that fails leaves no second copy of the repository behind.
func TestFailedFillRemovesStaging(t *testing.T) {
	repo := repository(t)
	broken := errors.New("the disk is broken")
	d := &copies{fail: broken}
	kind, to, dir := reserved(t, d, repo)
	if err := stager("").Fill(t.Context(), kind, to, source.Checkout(repo), nil); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "staging")); err == nil {
		t.Error("the staging directory is left")
	}
}

func TestBranchOf(t *testing.T) {
	commit := strings.Repeat("a", 40)
	for want, repo := range map[string]workspace.Repo{
		"main without a commit": {Branch: "main"}, "aaaaaaaaaaaa": {Branch: commit, Commit: commit, Detached: true}, "main at aaaaaaaaaaaa": {Branch: "main", Commit: commit},
	} {
		if got := describeBranch(repo); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
