package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/bench"
)

// gigabit is the rate of a link of 1 Gbit/s, in bytes per second.
const gigabit = 125_000_000

// slowSite serves a directory over a link of a given rate. All answers share the link, one after
// the other. It has no latency. mu guards the fields below it.
type slowSite struct {
	dir string
	// rate is in bytes per second.
	rate   float64
	server *http.Server
	url    string

	mu   sync.Mutex
	free time.Time // when the link is free again
	sent int64
}

// newSlowSite serves dir on a loopback port at rate bytes per second, until its server is closed.
func newSlowSite(dir string, rate float64) (*slowSite, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &slowSite{dir: dir, rate: rate, url: "http://" + l.Addr().String()}
	s.server = &http.Server{Handler: s}
	go s.server.Serve(l)
	return s, nil
}

// ServeHTTP sends a file of the directory at the time when the link would have delivered it, all at
// once: a client sees it late, not slowly. Only base names count, because file names are digests.
func (s *slowSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := os.ReadFile(filepath.Join(s.dir, filepath.Base(r.URL.Path)))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	time.Sleep(s.queue(len(b)))
	_, _ = w.Write(b)
}

// queue returns how long n more bytes take, behind all earlier ones. A link that was idle saves up
// no capacity.
func (s *slowSite) queue(n int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent += int64(n)
	if now := time.Now(); s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(time.Duration(float64(n) / s.rate * float64(time.Second)))
	return time.Until(s.free)
}

// bytes returns the number of bytes sent so far.
func (s *slowSite) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// LazyLab measures boxes on images that are not on this machine. It has two homes, with only
// kernels and the drivers' findings about the machine, and without templates. One already has the
// image; the other gets it over a slow link as needed.
type LazyLab struct {
	lab  *bench.Lab
	site *slowSite
	// image is the image of the boxes, as it was exported.
	image       api.Image
	lazy, local *bench.Installation
	fetched     float64 // bytes, by the end of the last first command
}

// Names of the homes, in a Lab's directory.
const (
	lazyHome  = "lazy"
	localHome = "local"
)

// OpenLazyLab makes and exports the image that a repository without a configuration gets. It also
// returns the box of WarmUp, whose kind is the one that is measured. The caller closes the lab.
func OpenLazyLab(ctx context.Context, cfg bench.Config) (_ *LazyLab, box agentbox.Box, err error) {
	lab, err := bench.Open(ctx, cfg)
	if err != nil {
		return nil, box, err
	}
	l := &LazyLab{lab: lab}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close(ctx))
		}
	}()
	if box, err = lab.WarmUp(ctx); err != nil {
		return nil, box, err
	}
	src := filepath.Join(lab.Dir, "export")
	if err := lab.Plain.Ask(ctx, &l.image, "image", "export", "--json", box.Image.String(), src); err != nil {
		return nil, box, err
	}
	if l.site, err = newSlowSite(src, gigabit); err != nil {
		return nil, box, err
	}
	for name, p := range map[string]**bench.Installation{lazyHome: &l.lazy, localHome: &l.local} {
		if *p, err = l.newHome(name); err != nil {
			return nil, box, err
		}
	}
	_, err = l.local.Do(ctx, l.lab.Dir, "image", "pull", "--from", src)
	return l, box, err
}

// newHome makes a home with kernels and facts, and nothing else. Without the facts, its first box
// would probe how this machine runs boxes, and the sample would include that.
func (l *LazyLab) newHome(name string) (*bench.Installation, error) {
	p := l.lab.InstallationOf(name, 0)
	err := errors.Join(os.Mkdir(p.Home.Dir, 0o700), os.Symlink(l.lab.User.Kernels(), p.Home.Kernels()))
	if err == nil {
		err = os.CopyFS(p.Home.State(), os.DirFS(l.lab.Plain.Home.State()))
	}
	return p, err
}

// Close ends all processes and removes everything.
func (l *LazyLab) Close(ctx context.Context) error {
	var errs []error
	if l.site != nil {
		errs = append(errs, l.site.server.Close())
	}
	for _, p := range []*bench.Installation{l.lazy, l.local} {
		if p != nil {
			errs = append(errs, p.Close(context.WithoutCancel(ctx)))
		}
	}
	return errors.Join(append(errs, l.lab.Close(ctx))...)
}

// lazyNames are the names of Scenarios, in order.
var lazyNames = []string{"store/local-first-command", "store/lazy-first-command", "store/lazy-image-bytes", "store/lazy-fetched-bytes"}

// IsLazy reports whether name is a scenario of a LazyLab. Opening one costs an export, so callers
// open it only when such a scenario is selected.
func IsLazy(name string) bool { return strings.HasPrefix(name, "store/l") }

// Scenarios measures the first command in a box that has no template, and how much of the image it
// needs. box is the result of OpenLazyLab. Fetched bytes are those of one more sample.
func (l *LazyLab) Scenarios(box agentbox.Box) []bench.Scenario {
	return bench.InBoxes(box, bench.BootLimit,
		bench.Scenario{Name: lazyNames[0], Measure: func(ctx context.Context) (float64, error) {
			return l.first(ctx, l.local)
		}},
		bench.Scenario{Name: lazyNames[1], Baseline: lazyNames[0], Measure: l.firstLazy},
		bench.Scenario{Name: lazyNames[2], Unit: bench.Bytes, Ceiling: float64(l.image.Size), Measure: func(context.Context) (float64, error) {
			return float64(l.image.Size), nil
		}},
		bench.Scenario{Name: lazyNames[3], Unit: bench.Bytes, Ceiling: float64(l.image.Size), Baseline: lazyNames[2], Measure: func(ctx context.Context) (float64, error) {
			_, err := l.firstLazy(ctx)
			return l.fetched, err
		}},
	)
}

// firstLazy measures a first command while nothing of the image is on this machine.
func (l *LazyLab) firstLazy(ctx context.Context) (float64, error) {
	if _, err := os.Stat(l.lazy.Home.Socket()); err == nil {
		if _, err := l.lazy.Do(ctx, l.lab.Dir, "daemon", "stop"); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(os.RemoveAll(l.lazy.Home.Store()), os.RemoveAll(l.lazy.Home.Images())); err != nil {
		return 0, err
	}
	if _, err := l.lazy.Do(ctx, l.lab.Dir, "image", "pull", "--lazy", "--from", l.site.url); err != nil {
		return 0, err
	}
	return l.first(ctx, l.lazy)
}

// first measures a box that has no template, from the start of the command line to the end of a
// command that does nothing. It returns milliseconds, and records the bytes sent in fetched.
func (l *LazyLab) first(ctx context.Context, p *bench.Installation) (ms float64, err error) {
	if _, err := os.Stat(p.Home.Templates()); err == nil {
		if _, err := p.Do(ctx, l.lab.Dir, "prune"); err != nil {
			return 0, err
		}
	}
	// A template would skip the boot, which is what reads the image.
	left, _ := filepath.Glob(filepath.Join(p.Home.Templates(), "*"))
	if len(left) > 0 {
		return 0, fmt.Errorf("templates are left in %s", p.Home.Templates())
	}
	repo, err := l.lab.Repo(ctx, "first", bench.SmallRepository)
	if err != nil {
		return 0, err
	}
	before := l.site.bytes()
	ms, err = p.Timed(ctx, bench.BootLimit, repo, p.Up("first", "--", "true")...)
	l.fetched = float64(l.site.bytes() - before)
	return ms, errors.Join(err, p.Remove(ctx, "first"))
}
