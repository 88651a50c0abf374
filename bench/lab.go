package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
)

// Lab is where scenarios run: homes and repositories in one directory, which Close removes.
//
//	bench-<random>/         in the user's home, so that files are on the same disk as the user's boxes
//	bench-<random>/lock     held while the Lab is in use
//	bench-<random>/agentbox a hard link to the program, so that a new build does not disturb the run
//	bench-<random>/plain/   a home without a pool
//	bench-<random>/pooled/  a home with one
//	bench-<random>/repos/
type Lab struct {
	Dir string // absolute
	// lock is held while the Lab is in use. The kernel releases it with the process, so that a
	// later benchmark finds what a killed one left.
	lock   *os.File
	binary string
	kind   agentbox.Isolation // of the boxes; "" for the kind that a new box gets
	// User is the user's own home, the source of images, kernels and templates.
	User home.Home
	// Flags are the flags of up that describe the machine. They are the same for every box, so
	// that figures can be compared.
	Flags []string
	Say   agentbox.Progress
	// Plain has no pool, so that enter/template starts a machine, whatever the default: it restores a
	// microVM, and boots in gVisor.
	Plain *Installation
}

// Config is what a Lab needs. All fields but Isolation and Progress are required.
type Config struct {
	Home   home.Home // of the user: its images, kernels and templates are used, and missing ones are added
	Binary string    // the program to measure
	// Isolation is the kind of all boxes; "" for the kind that a new box gets.
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

	// maxHomePath is a little less than agentbox's limit, beyond which it refuses a home.
	maxHomePath = 72
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
		Dir: dir, User: cfg.Home, Say: cfg.Progress, kind: cfg.Isolation, binary: filepath.Join(dir, binaryName),
		Flags: []string{"--cpus", "2", "--memory", "1GiB"},
	}
	if cfg.Isolation != "" {
		l.Flags = append(l.Flags, "--isolation", string(cfg.Isolation))
	}
	if err := l.fill(ctx, cfg.Binary); err != nil {
		return nil, errors.Join(err, l.Close(ctx))
	}
	return l, nil
}

// newLabDir makes the directory: in parent, or in the temporary directory when the paths of sockets
// would be too long.
func newLabDir(parent string) (string, error) {
	if longest := filepath.Join(parent, labPrefix+"0123456789", pooledHome); len(longest) > maxHomePath {
		parent = os.TempDir()
	}
	return os.MkdirTemp(parent, labPrefix)
}

func (l *Lab) fill(ctx context.Context, binary string) (err error) {
	if l.lock, err = durable.TryLock(filepath.Join(l.Dir, lockName)); err != nil {
		return err
	}
	// Only with our own lock held, so that of two benchmarks that start at once neither removes the
	// other.
	l.sweep(ctx)
	// If the Lab is on another file system, the program is measured where it is.
	if err := os.Link(binary, l.binary); err != nil {
		l.binary = binary
	}
	if err := os.Mkdir(filepath.Join(l.Dir, reposName), 0o700); err != nil {
		return err
	}
	l.Plain, err = l.newInstallation(plainHome, 0)
	return err
}

// Kinds returns the kinds of isolation that work on this machine according to doctor, beginning
// with the one that a new box gets. The error is Missing when there is none.
func (l *Lab) Kinds(ctx context.Context) ([]agentbox.Isolation, error) {
	var report api.DoctorReport
	// doctor prints its report even when it fails.
	out, err := l.Plain.Do(ctx, l.Plain.Home.Dir, "doctor", "--json")
	if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
		return nil, errors.Join(err, jsonErr)
	}
	kinds := ofThisMachine(report.Kinds)
	if len(kinds) == 0 {
		return nil, agentbox.Errorf(agentbox.Missing, "no kind of isolation works here").WithHint("agentbox doctor says why")
	}
	return kinds, nil
}

// ofThisMachine leaves out the kinds whose boxes are on machines that only a repository names.
func ofThisMachine(kinds []agentbox.Isolation) []agentbox.Isolation {
	return slices.DeleteFunc(slices.Clone(kinds), func(k agentbox.Isolation) bool { return agentbox.KindOf(k).Elsewhere })
}

// sweep removes labs whose benchmark was killed, which leaves their lock free.
func (l *Lab) sweep(ctx context.Context) {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(l.Dir), labPrefix+"*"))
	for _, dir := range found {
		if _, err := os.Stat(filepath.Join(dir, lockName)); dir == l.Dir || err != nil {
			continue // not a lab, or one that is being created
		}
		lock, err := durable.TryLock(filepath.Join(dir, lockName))
		if err != nil {
			continue
		}
		left := &Lab{Dir: dir, lock: lock, User: l.User, binary: filepath.Join(dir, binaryName)}
		if err := left.Close(ctx); err != nil {
			l.Say.Note("a killed benchmark left " + dir + ": " + err.Error())
		}
	}
}

// closeTime bounds the whole of Close, including the removal of boxes.
const (
	closeTime   = 2 * time.Minute
	exitTimeout = 10 * time.Second // for processes to end by themselves after their daemon
)

// Close removes every box, ends every process and deletes the directory, also when ctx has ended.
func (l *Lab) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	var errs []error
	for _, name := range []string{plainHome, pooledHome} {
		errs = append(errs, l.InstallationOf(name, 0).Close(ctx))
	}
	errs = append(errs, l.killLeftovers(ctx), removeTree(l.Dir))
	if l.lock != nil {
		errs = append(errs, l.lock.Close())
	}
	return errors.Join(errs...)
}

// killLeftovers kills processes that should have ended with their box or daemon. It returns an
// error for them, because they are a bug of agentbox.
func (l *Lab) killLeftovers(ctx context.Context) error {
	deadline := time.Now().Add(exitTimeout)
	for {
		left, err := processesOf(l.Dir + string(filepath.Separator))
		left = excludeUnrelated(left)
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			errs := []error{fmt.Errorf("left behind and killed: %s", formatProcesses(left))}
			for _, p := range left {
				errs = append(errs, syscall.Kill(p.pid, syscall.SIGKILL))
			}
			return errors.Join(errs...)
		}
		if err := Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// Sleep waits for d, or until ctx ends, and then returns its cause.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
