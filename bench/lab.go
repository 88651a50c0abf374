package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
)

// Lab is where scenarios run: homes and repositories in one directory that goes when the Lab does.
//
//	bench-<random>/         in the user's home, so that files lie on the disk the user's boxes lie on
//	bench-<random>/lock     held while the Lab is in use
//	bench-<random>/agentbox a hard link to the program, so that building a new one does not disturb the measurement
//	bench-<random>/plain/   a home without a pool
//	bench-<random>/pooled/  a home with one
//	bench-<random>/repos/
type Lab struct {
	// dir is absolute.
	dir string
	// lock is held while the Lab is in use. It goes with the process, so that a later benchmark
	// finds what a killed one left.
	lock   *os.File
	binary string
	// user is the user's own home, which gives images, kernels and templates.
	user home.Home
	// machine are flags of up that describe the machine: the same in every box, so that figures can
	// be compared.
	machine []string
	say     agentbox.Progress
	// plain has no pool: enter/template is a restore on every machine then, whatever the default
	// is.
	plain *installation
}

// Config is what a Lab needs. All but Isolation and Progress is required.
type Config struct {
	Home   home.Home // of the user: its images, kernels and templates are used, and what is missing is added
	Binary string    // the program to measure
	// Isolation is that of the boxes; "" for what a new box gets.
	Isolation agentbox.Isolation
	Progress  agentbox.Progress
}

// Names in a Lab's directory.
const (
	labPrefix  = "bench-"
	binaryName = "agentbox"
	lockName   = "lock"
	plainHome  = "plain"
	pooledHome = "pooled"
	reposName  = "repos"

	// longestHome is a little less than what agentbox takes: it would say so, and refuse, rather
	// than fail later.
	longestHome = 72
)

// Open makes a Lab, and removes those of earlier benchmarks that were killed. The caller closes it,
// also after an interrupt.
func Open(ctx context.Context, cfg Config) (*Lab, error) {
	if err := cfg.Home.Create(); err != nil {
		return nil, err
	}
	dir, err := newLabDir(cfg.Home.Dir)
	if err != nil {
		return nil, err
	}
	l := &Lab{
		dir: dir, user: cfg.Home, say: cfg.Progress, binary: filepath.Join(dir, binaryName),
		machine: []string{"--cpus", "2", "--memory", "1GiB"},
	}
	if cfg.Isolation != "" {
		l.machine = append(l.machine, "--isolation", string(cfg.Isolation))
	}
	if err := l.fill(ctx, cfg.Binary); err != nil {
		return nil, errors.Join(err, l.Close(ctx))
	}
	return l, nil
}

// newLabDir makes the directory, in parent unless that makes the paths of sockets too long.
func newLabDir(parent string) (string, error) {
	if longest := filepath.Join(parent, labPrefix+"0123456789", pooledHome); len(longest) > longestHome {
		parent = os.TempDir()
	}
	return os.MkdirTemp(parent, labPrefix)
}

// fill locks the directory and makes what is in it.
func (l *Lab) fill(ctx context.Context, binary string) (err error) {
	if l.lock, err = durable.TryLock(filepath.Join(l.dir, lockName)); err != nil {
		return err
	}
	// Only once our own lock is held: two benchmarks that begin at once must not take each other
	// for dead.
	l.sweep(ctx)
	// On another file system it is measured where it is.
	if err := os.Link(binary, l.binary); err != nil {
		l.binary = binary
	}
	if err := os.Mkdir(filepath.Join(l.dir, reposName), 0o700); err != nil {
		return err
	}
	l.plain, err = l.newInstallation(plainHome, 0)
	return err
}

// Kinds are the kinds of isolation that work on this machine, the one a new box gets first, as
// doctor finds them. Missing when none does.
func (l *Lab) Kinds(ctx context.Context) ([]agentbox.Isolation, error) {
	var report api.DoctorReport
	// doctor fails when something is amiss, and has its say first.
	out, err := l.plain.do(ctx, l.plain.home.Dir, "doctor", "--json")
	if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
		return nil, errors.Join(err, jsonErr)
	}
	if len(report.Kinds) == 0 {
		return nil, agentbox.Errorf(agentbox.Missing, "no kind of isolation works here").WithHint("agentbox doctor says why")
	}
	return report.Kinds, nil
}

// sweep removes labs whose benchmark was killed: their lock is free.
func (l *Lab) sweep(ctx context.Context) {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(l.dir), labPrefix+"*"))
	for _, dir := range found {
		if _, err := os.Stat(filepath.Join(dir, lockName)); dir == l.dir || err != nil {
			continue // not a lab, or one that is being made
		}
		lock, err := durable.TryLock(filepath.Join(dir, lockName))
		if err != nil {
			continue
		}
		left := &Lab{dir: dir, lock: lock, user: l.user, binary: filepath.Join(dir, binaryName)}
		if err := left.Close(ctx); err != nil {
			l.say.Say("a killed benchmark left " + dir + ": " + err.Error())
		}
	}
}

// closeTime is for everything together, the removal of boxes included.
const (
	closeTime = 2 * time.Minute
	strayTime = 10 * time.Second // for processes to end by themselves after their daemon did
)

// Close removes every box, ends every process and deletes the directory, also when ctx has ended.
func (l *Lab) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	var errs []error
	for _, name := range []string{plainHome, pooledHome} {
		errs = append(errs, l.installationOf(name, 0).close(ctx))
	}
	errs = append(errs, l.endStrays(ctx), newWire(filepath.Base(l.dir)).cut(ctx), os.RemoveAll(l.dir))
	if l.lock != nil {
		errs = append(errs, l.lock.Close())
	}
	return errors.Join(errs...)
}

// endStrays kills what should have ended with its box or its daemon, and says so: it is a bug of
// agentbox.
func (l *Lab) endStrays(ctx context.Context) error {
	deadline := time.Now().Add(strayTime)
	for {
		left, err := processesOf(l.dir + string(filepath.Separator))
		left = ours(left)
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			errs := []error{fmt.Errorf("left behind and killed: %s", listed(left))}
			for _, p := range left {
				errs = append(errs, syscall.Kill(p.pid, syscall.SIGKILL))
			}
			return errors.Join(errs...)
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// sleep waits, or gives the cause of ctx's end.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
