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
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
)

// Installation is one home and the program that works on it. The first command that needs a daemon
// starts it; close stops it.
type Installation struct {
	Lab  *Lab
	Home home.Home
	// Program has the home and the size of the pool in its environment.
	Program Program
}

// choreTimeout bounds each command between samples. It is far more than any of them takes, so it
// cuts off only what hangs.
const choreTimeout = 2 * time.Minute

// InstallationOf returns the home called name in the Lab, whether or not it exists, with a pool of
// that many machines.
func (l *Lab) InstallationOf(name string, pool int) *Installation {
	h := home.Home{Dir: filepath.Join(l.Dir, name)}
	env := []string{home.EnvDir + "=" + h.Dir, "AGENTBOX_POOL=" + strconv.Itoa(pool)}
	return &Installation{Lab: l, Home: h, Program: Program{Path: l.binary, Env: env}}
}

// newInstallation makes a home. It shares the user's images and kernels, whose stores are safe for
// several processes. It cannot share templates, because a daemon removes those that are half built,
// so it links the complete ones file by file.
func (l *Lab) newInstallation(name string, pool int) (*Installation, error) {
	p := l.InstallationOf(name, pool)
	for _, dir := range []string{p.Home.Dir, p.Home.State(), p.Home.Templates()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	err := errors.Join(os.Symlink(l.User.Images(), p.Home.Images()), os.Symlink(l.User.Kernels(), p.Home.Kernels()))
	if err == nil {
		linkTemplates(p.Home, l.User)
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

// Do runs a command between samples.
func (i *Installation) Do(ctx context.Context, dir string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, choreTimeout)
	defer cancel()
	out, _, err := i.Program.Run(ctx, dir, args...)
	return out, err
}

// Timed runs a command that is a sample, and returns its milliseconds.
func (i *Installation) Timed(ctx context.Context, limit time.Duration, dir string, args ...string) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the limit is %s", limit))
	defer cancel()
	_, took, err := i.Program.Run(ctx, dir, args...)
	return InMilliseconds(took), err
}

// InMilliseconds converts a duration to the unit of samples.
func InMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Up returns the command line that makes a box of this benchmark, or finds it.
func (i *Installation) Up(name string, flags ...string) []string {
	return slices.Concat([]string{"up", "--name", name}, i.Lab.Flags, flags)
}

func (i *Installation) boxes(ctx context.Context) (list []agentbox.Box, err error) {
	err = i.Ask(ctx, &list, "ls", "--json")
	return list, err
}

// Show returns the current state of one box.
func (i *Installation) Show(ctx context.Context, name string) (b agentbox.Box, err error) {
	err = i.Ask(ctx, &b, "show", "--json", name)
	return b, err
}

// status returns that of the daemon. It starts the daemon if necessary.
func (i *Installation) status(ctx context.Context) (st api.DaemonStatus, err error) {
	err = i.Ask(ctx, &st, "daemon", "status", "--json")
	return st, err
}

// Ask runs a command between samples and decodes its answer, which is JSON.
func (i *Installation) Ask(ctx context.Context, answer any, args ...string) error {
	out, err := i.Do(ctx, i.Home.Dir, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, answer); err != nil {
		return fmt.Errorf("agentbox %v: cannot read its answer: %w", args, err)
	}
	return nil
}

// Environment returns the environment of a box's commands, as NAME=value.
func (i *Installation) Environment(ctx context.Context, box string) ([]string, error) {
	out, err := i.Do(ctx, i.Home.Dir, "exec", box, "--", "env", "-0")
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), err
}

// Remove removes the boxes with these names that exist, or all boxes when there are no names.
func (i *Installation) Remove(ctx context.Context, names ...string) error {
	list, err := i.boxes(ctx)
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
	_, err = i.Do(ctx, i.Home.Dir, args...)
	return err
}

// Close removes every box and stops the daemon. A home that was never used has neither.
func (i *Installation) Close(ctx context.Context) error {
	// Asking the daemon would start one.
	boxes, _ := os.ReadDir(i.Home.Boxes())
	if _, err := os.Stat(i.Home.Socket()); err != nil && len(boxes) == 0 {
		return nil
	}
	err := i.Remove(ctx)
	_, stopErr := i.Do(ctx, i.Home.Dir, "daemon", "stop")
	return errors.Join(err, stopErr)
}
