package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// world is the binary under test, and a home with the image, the kernel and the templates that most
// scripts need.
type world struct {
	dir    string // contains all files of the tests; short, because of sockets
	bin    string // directory with the binary
	seed   string // the home that others link to
	config string // git's
	keep   bool   // the seed is kept for the next run
	homes  atomic.Int32

	working, waiting slots
	images           images
}

func (w *world) room(waits bool) slots {
	if waits {
		return w.waiting
	}
	return w.working
}

// seedEnv names a directory in which the seed home survives the run, so that authors of scripts
// wait only once.
const seedEnv = "AGENTBOX_E2E_SEED"

// binEnv names a directory with the binary to test and the programs of tools/e2e for scripts, for a
// host without a compiler.
const binEnv = "AGENTBOX_E2E_BIN"

// Homes share nothing that changes. Large directories that are complete and never written again are
// linked one by one, so that each home can add and remove its own; the rest is copied.
var (
	linked = []string{"images/images", "templates", "host", "host/gvisor"}
	copied = []string{"images/recipes", "kernels"}
	owned  = []string{"host", "images", "kernels", "templates"} // copied by the command ownhome
)

// machineKinds are the kinds of isolation that scripts run under.
var machineKinds = []string{"gvisor", "microvm"}

// kindEnv names the only kind that this run tests.
const kindEnv = "AGENTBOX_E2E_KIND"

// testedKinds are those of which this part of the tests has machines: see atEachPush.
func testedKinds() []string {
	if only := os.Getenv(kindEnv); only != "" {
		return []string{only}
	}
	if os.Getenv(partEnv) == slow {
		return []string{"gvisor"}
	}
	return machineKinds
}

func newWorld() (*world, error) {
	dir, err := os.MkdirTemp("/tmp", "ab-e2e-")
	if err != nil {
		return nil, err
	}
	// A user other than root must be able to reach their own files.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	w := &world{dir: dir, bin: filepath.Join(dir, "bin"), seed: filepath.Join(dir, "seed"), config: filepath.Join(dir, "gitconfig")}
	w.images.homes = map[string]*madeImage{}
	if kept := os.Getenv(seedEnv); kept != "" {
		w.seed, w.keep = kept, true
	}
	w.working, w.waiting, err = rooms()
	if err == nil {
		err = w.build()
	}
	if err == nil {
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

// build has make build the binary, unless it is there, or uses the given one. Users other than root
// reach the copy.
func (w *world) build() error {
	if err := os.WriteFile(w.config, []byte(gitConfig), 0o644); err != nil {
		return err
	}
	if bin := os.Getenv(binEnv); bin != "" {
		w.bin = bin
		return nil
	}
	make := exec.Command("make", "-C", "../..", "build")
	if out, err := make.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", make, err, out)
	}
	return errors.Join(copyTree(filepath.Join(w.bin, "agentbox"), "../../bin/agentbox"), os.Chmod(w.bin, 0o755))
}

// plant makes the seed. For each kind it creates a box in a repository with the configuration of
// scripts, and removes it again.
func (w *world) plant() error {
	repo := filepath.Join(w.dir, "plant")
	if err := os.MkdirAll(repo, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(repo, "agentbox.yaml"), []byte(boxConfig), 0o644); err != nil {
		return err
	}
	agentbox := filepath.Join(w.bin, "agentbox")
	todo := [][]string{{"git", "init", "-q"}}
	for _, kind := range testedKinds() {
		todo = append(todo, []string{agentbox, "up", "--detach", "--isolation", kind}, []string{agentbox, "rm"})
	}
	return w.each(repo, w.seed, append(todo, []string{agentbox, "daemon", "stop"})...)
}

// each runs commands in a directory, with a home, one after the other.
func (w *world) each(dir, home string, commands ...[]string) error {
	for _, argv := range commands {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), w.vars(home, "")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return nil
}

// boxConfig is the configuration that most scripts use. Its machines are small and have one CPU, so
// that they start fast and share a template.
const boxConfig = `image: apt:bookworm
packages: [busybox, git, inotify-tools, rsync]
cpus: 1
memory: 512MiB
disk: 4GiB
`

// vars returns the environment of a home. kind replaces the automatic choice of isolation.
func (w *world) vars(home, kind string) []string {
	return []string{
		"AGENTBOX_HOME=" + home, "GIT_CONFIG_GLOBAL=" + w.config, "GIT_CONFIG_NOSYSTEM=1", "NO_COLOR=1", "AGENTBOX_POOL=0",
		"AGENTBOX_ISOLATION=" + kind,
	}
}

// newHome makes a home with the contents of the seed.
func (w *world) newHome() (string, error) {
	home := filepath.Join(w.dir, fmt.Sprint("h", w.homes.Add(1)))
	if err := os.Mkdir(home, 0o711); err != nil {
		return "", err
	}
	for _, name := range linked {
		if err := linkEntries(filepath.Join(home, name), filepath.Join(w.seed, name)); err != nil {
			return "", err
		}
	}
	for _, name := range copied {
		if err := copyTree(filepath.Join(home, name), filepath.Join(w.seed, name)); err != nil {
			return "", err
		}
	}
	return home, nil
}

// linkEntries makes the directory to, with a link to each directory of from and a copy of each
// file. It skips hidden entries, which are incomplete.
func linkEntries(to, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a kind that is not tested has no directory
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		theirs, ours := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case e.Name()[0] == '.' || slices.ContainsFunc(linked, func(name string) bool { return strings.HasSuffix(theirs, "/"+name) }):
		case e.IsDir():
			err = os.Symlink(theirs, ours)
		default:
			err = copyTree(ours, theirs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyTree(to, from string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", "--sparse=always", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w\n%s", from, err, out)
	}
	return nil
}

// own replaces what a home shares with others by copies.
func (w *world) own(home string) error {
	for _, name := range owned {
		path := filepath.Join(home, name)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if err := copyTree(path, filepath.Join(w.seed, name)); err != nil {
			return err
		}
	}
	return nil
}

// roomKey is the key of the slots in a script's environment.
type roomKey struct{}

// setup makes a script's home, and checks after the script that nothing is left of it.
func (w *world) setup(kind string, room slots) func(env *testscript.Env) error {
	return func(env *testscript.Env) error {
		env.Values[roomKey{}] = room
		home, err := w.newHome()
		if err != nil {
			return err
		}
		env.Vars = append(env.Vars, w.vars(home, kind)...)
		env.Setenv("PATH", w.bin+":"+env.Getenv("PATH"))
		env.Setenv("HOME", filepath.Join(env.WorkDir, ".home"))
		env.Setenv("KIND", kind)
		shots, err := filepath.Abs("../../build/shots") // what pages looked like, for people
		if err != nil {
			return err
		}
		env.Setenv("SHOTS", shots)
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
}

// close removes everything, and returns an error for processes that are still running.
func (w *world) close() error {
	err := errors.Join(endAll(w.dir), noMounts(w.dir))
	if !w.keep {
		err = errors.Join(err, endAll(w.seed))
	}
	return errors.Join(err, removeUser(), os.RemoveAll(w.dir))
}
