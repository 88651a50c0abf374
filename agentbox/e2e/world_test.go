package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// world is the binary under test and a home with the image, the kernel and the template that most scripts need.
type world struct {
	dir    string // everything of ours is below it; short, because sockets are
	bin    string // directory with the binary
	seed   string // the home that others link to
	config string // git's
	keep   bool   // the seed is kept for the next run
	homes  atomic.Int32
}

// seedEnv names a directory in which the seed home outlives the run, so that whoever writes scripts waits once.
const seedEnv = "AGENTBOX_E2E_SEED"

// linked are the parts of a home that homes may share: whoever writes them takes a lock in them first.
var linked = []string{"host", "images", "kernels"}

// templates is shared by entry and not as a whole: a daemon that starts clears the directory of what it takes for its
// predecessor's half-built templates.
const templates = "templates"

func newWorld() (*world, error) {
	dir, err := os.MkdirTemp("/tmp", "ab-e2e-")
	if err != nil {
		return nil, err
	}
	// A user other than root must get through to what is theirs.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	w := &world{dir: dir, bin: filepath.Join(dir, "bin"), seed: filepath.Join(dir, "seed"), config: filepath.Join(dir, "gitconfig")}
	if kept := os.Getenv(seedEnv); kept != "" {
		w.seed, w.keep = kept, true
	}
	if err = w.build(); err == nil {
		err = w.plant()
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

const gitConfig = `[user]
	name = Ada
	email = ada@example.com
[init]
	defaultBranch = main
[safe]
	directory = *
[protocol "file"]
	allow = always
[advice]
	detachedHead = false
`

// build makes the binary as the Makefile does.
func (w *world) build() error {
	if err := os.WriteFile(w.config, []byte(gitConfig), 0o644); err != nil {
		return err
	}
	generate := exec.Command("go", "generate", "./vmm/guest")
	compile := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(w.bin, "agentbox"), ".")
	for _, cmd := range []*exec.Cmd{generate, compile} {
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return os.Chmod(w.bin, 0o755)
}

// plant makes the seed: a box in a repository with the configuration that scripts use, which is removed again.
func (w *world) plant() error {
	repo := filepath.Join(w.dir, "plant")
	if err := os.MkdirAll(repo, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(repo, "agentbox.yaml"), []byte(boxConfig), 0o644); err != nil {
		return err
	}
	agentbox := filepath.Join(w.bin, "agentbox")
	for _, argv := range [][]string{{"git", "init", "-q"}, {agentbox, "up", "--detach"}, {agentbox, "rm"}, {agentbox, "daemon", "stop"}} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = repo, append(os.Environ(), w.vars(w.seed)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return nil
}

// boxConfig is the configuration that most scripts use. Small and with one CPU, its machines start soon and share a
// template.
const boxConfig = `image: apt:bookworm
packages: [busybox, git, inotify-tools, rsync]
cpus: 1
memory: 512MiB
disk: 4GiB
`

func (w *world) vars(home string) []string {
	return []string{"AGENTBOX_HOME=" + home, "GIT_CONFIG_GLOBAL=" + w.config, "GIT_CONFIG_NOSYSTEM=1", "NO_COLOR=1", "AGENTBOX_POOL=0", "AGENTBOX_ISOLATION=microvm"}
}

// newHome makes a home that has what the seed has.
func (w *world) newHome() (string, error) {
	home := filepath.Join(w.dir, fmt.Sprint("h", w.homes.Add(1)))
	if err := os.MkdirAll(filepath.Join(home, templates), 0o711); err != nil {
		return "", err
	}
	names := slices.Clone(linked)
	made, err := filepath.Glob(filepath.Join(w.seed, templates, "[^.]*"))
	for _, path := range made {
		names = append(names, filepath.Join(templates, filepath.Base(path)))
	}
	for _, name := range names {
		err = errors.Join(err, os.Symlink(filepath.Join(w.seed, name), filepath.Join(home, name)))
	}
	return home, err
}

// setup gives a script its home, and sees to it that nothing is left of it afterwards.
func (w *world) setup(env *testscript.Env) error {
	home, err := w.newHome()
	if err != nil {
		return err
	}
	env.Vars = append(env.Vars, w.vars(home)...)
	env.Setenv("PATH", w.bin+":"+env.Getenv("PATH"))
	env.Setenv("HOME", filepath.Join(env.WorkDir, ".home"))
	t, ok := env.T().(testing.TB)
	if !ok {
		return errors.New("the script's test cannot clean up")
	}
	t.Cleanup(func() { w.retire(t, home) })
	return errors.Join(
		os.Mkdir(env.Getenv("HOME"), 0o755),
		os.WriteFile(filepath.Join(env.WorkDir, "box.yaml"), []byte(boxConfig), 0o644),
		os.Chmod(filepath.Dir(env.WorkDir), 0o755),
	)
}

// close removes everything, and tells of processes that nobody else found.
func (w *world) close() error {
	err := errors.Join(endAll(w.dir), noMounts(w.dir))
	if !w.keep {
		err = errors.Join(err, endAll(w.seed))
	}
	return errors.Join(err, removeUser(), os.RemoveAll(w.dir))
}
