package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
)

// installation is one home and the program that works on it. The first command that needs a daemon
// starts it; close stops it.
type installation struct {
	lab  *Lab
	home home.Home
	// program has the home and the size of the pool in its environment.
	program Program
}

// choreTimeout bounds each command between samples. It is far more than any of them takes, so it
// cuts off only what hangs.
const choreTimeout = 2 * time.Minute

// installationOf returns the home called name in the Lab, whether or not it exists, with a pool of
// that many machines.
func (l *Lab) installationOf(name string, pool int) *installation {
	h := home.Home{Dir: filepath.Join(l.dir, name)}
	env := []string{home.EnvDir + "=" + h.Dir, "AGENTBOX_POOL=" + strconv.Itoa(pool)}
	return &installation{lab: l, home: h, program: Program{Path: l.binary, Env: env}}
}

// newInstallation makes a home. It shares the user's images and kernels, whose stores are safe for
// several processes. It cannot share templates, because a daemon removes those that are half built,
// so it links the complete ones file by file.
func (l *Lab) newInstallation(name string, pool int) (*installation, error) {
	p := l.installationOf(name, pool)
	for _, dir := range []string{p.home.Dir, p.home.State(), p.home.Templates()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	err := errors.Join(os.Symlink(l.user.Images(), p.home.Images()), os.Symlink(l.user.Kernels(), p.home.Kernels()))
	if err == nil {
		linkTemplates(p.home, l.user)
	}
	return p, err
}

// linkTemplates saves the time to build templates anew. Those that it cannot link are built.
func linkTemplates(to, from home.Home) {
	found, _ := filepath.Glob(filepath.Join(from.Templates(), "[0-9a-f]*"))
	for _, dir := range found {
		if err := linkTree(to.Template(filepath.Base(dir)), dir); err != nil {
			_ = os.RemoveAll(to.Template(filepath.Base(dir)))
		}
	}
}

// linkTree makes hard links in the directory to of all files of another. to may exist.
func linkTree(to, from string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, f := range files {
		err := os.Link(filepath.Join(from, f.Name()), filepath.Join(to, f.Name()))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// do runs a command between samples.
func (p *installation) do(ctx context.Context, dir string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, choreTimeout)
	defer cancel()
	out, _, err := p.program.Run(ctx, dir, args...)
	return out, err
}

// timed runs a command that is a sample, and returns its milliseconds.
func (p *installation) timed(ctx context.Context, limit time.Duration, dir string, args ...string) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the limit is %s", limit))
	defer cancel()
	_, took, err := p.program.Run(ctx, dir, args...)
	return milliseconds(took), err
}

// milliseconds converts a duration to the unit of samples.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// up returns the command line that makes a box of this benchmark, or finds it.
func (p *installation) up(name string, flags ...string) []string {
	return slices.Concat([]string{"up", "--name", name}, p.lab.machine, flags)
}

// boxes lists all boxes.
func (p *installation) boxes(ctx context.Context) (list []agentbox.Box, err error) {
	err = p.ask(ctx, &list, "ls", "--json")
	return list, err
}

// show returns the current state of one box.
func (p *installation) show(ctx context.Context, name string) (b agentbox.Box, err error) {
	err = p.ask(ctx, &b, "show", "--json", name)
	return b, err
}

// status returns that of the daemon. It starts the daemon if necessary.
func (p *installation) status(ctx context.Context) (st api.DaemonStatus, err error) {
	err = p.ask(ctx, &st, "daemon", "status", "--json")
	return st, err
}

// ask runs a command between samples and decodes its answer, which is JSON.
func (p *installation) ask(ctx context.Context, answer any, args ...string) error {
	out, err := p.do(ctx, p.home.Dir, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, answer); err != nil {
		return fmt.Errorf("agentbox %v: cannot read its answer: %w", args, err)
	}
	return nil
}

// remove removes the boxes with these names that exist, or all boxes when there are no names.
func (p *installation) remove(ctx context.Context, names ...string) error {
	list, err := p.boxes(ctx)
	if err != nil {
		return err
	}
	// By id: a name may stand for a box of another repository.
	args := []string{"rm", "--force"}
	for _, b := range list {
		if len(names) == 0 || slices.Contains(names, b.Name) {
			args = append(args, b.ID.String())
		}
	}
	if len(args) == 2 {
		return nil
	}
	_, err = p.do(ctx, p.home.Dir, args...)
	return err
}

// close removes every box and stops the daemon. A home that was never used has neither.
func (p *installation) close(ctx context.Context) error {
	// Asking the daemon would start one.
	boxes, _ := os.ReadDir(p.home.Boxes())
	if _, err := os.Stat(p.home.Socket()); err != nil && len(boxes) == 0 {
		return nil
	}
	err := p.remove(ctx)
	_, stopErr := p.do(ctx, p.home.Dir, "daemon", "stop")
	return errors.Join(err, stopErr)
}
