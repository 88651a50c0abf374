package bench

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"agentbox/agentbox/toolchain"
)

// place is where the commands of a project run: a box, or the machine itself. It remembers which of
// them ran there, so that scenarios may run in any order.
type place struct {
	WorkTarget
	// fresh makes the place anew: the files of the repository, what its setup makes, and nothing that
	// a command left.
	fresh    func(ctx context.Context) error
	commands []toolchain.Command
	ran      []bool // by command, since fresh; nil before the first
}

func (p *place) renew(ctx context.Context) error {
	p.ran = nil
	if err := p.fresh(ctx); err != nil {
		return err
	}
	p.ran = make([]bool, len(p.commands))
	return nil
}

// begin makes the place unless it is there.
func (p *place) begin(ctx context.Context) error {
	if p.ran != nil {
		return nil
	}
	return p.renew(ctx)
}

// prepare runs those of the first n commands that did not run yet. One that fails is not our
// subject: its own scenario counts it.
func (p *place) prepare(ctx context.Context, n int) error {
	for i := range n {
		if !p.ran[i] {
			p.ran[i] = true
			_, _ = p.Run(ctx, p.commands[i].Run)
		}
	}
	return ctx.Err()
}

// cold measures a command where it never ran before, but those before it did.
func (p *place) cold(ctx context.Context, i int) (float64, error) {
	if p.ran == nil || p.ran[i] {
		if err := p.renew(ctx); err != nil {
			return 0, err
		}
	}
	if err := p.prepare(ctx, i); err != nil {
		return 0, err
	}
	p.ran[i] = true
	return p.Run(ctx, p.commands[i].Run)
}

// warm measures a command where it ran before.
func (p *place) warm(ctx context.Context, i int) (float64, error) {
	if err := p.begin(ctx); err != nil {
		return 0, err
	}
	if err := p.prepare(ctx, i+1); err != nil {
		return 0, err
	}
	return p.Run(ctx, p.commands[i].Run)
}

// mostCold is the number of cold samples: each needs a new box, and all the commands before.
const mostCold = 5

// scenario returns the scenario of a command. area ends with a slash.
func (p *place) scenario(area string, i int, warm bool) Scenario {
	s := Scenario{
		Name: area + caption(p.commands[i].Name, warm), Group: "cold", Unit: Milliseconds, Ceiling: InMilliseconds(WorkLimit), Most: mostCold,
		Measure: func(ctx context.Context) (float64, error) { return p.cold(ctx, i) },
	}
	if warm {
		s.Group, s.Most = "warm", 0
		s.Measure = func(ctx context.Context) (float64, error) { return p.warm(ctx, i) }
	}
	return s
}

// removeTree also removes read-only directories, such as Go's module cache.
func removeTree(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.RemoveAll(dir)
}
