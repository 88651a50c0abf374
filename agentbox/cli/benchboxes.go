package cli

import (
	"context"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/bench"
)

// boxes returns a benchFunc for scenarios that run in a warm box. of makes the scenarios. It is
// called twice: first with an empty box, only to check that a pattern matches before minutes are
// spent on warming up.
func boxes(of func(*bench.Lab, agentbox.Box) []bench.Scenario) func(context.Context, *benchRun, *bench.Lab) error {
	return func(ctx context.Context, r *benchRun, lab *bench.Lab) error {
		if _, err := r.choose(of(lab, agentbox.Box{})); err != nil {
			return err
		}
		end := r.say.Begin("warm-up", "image, kernel, template")
		box, err := lab.WarmUp(ctx)
		if err != nil {
			return err
		}
		end(isolationText(box))
		return r.measure(ctx, of(lab, box))
	}
}

// benchWorkCommand is `bench work`: the same work on the machine itself and in boxes, in
// alternating runs. The builds are those of the repository in the current directory, and of zlib.
func (a *app) benchWorkCommand() *cli.Command {
	return a.benchVerb("work", "measure builds and tests on this machine, outside and inside of boxes",
		"Needs gcc, make and the network, for the source of zlib. Let nothing else run meanwhile.", 5,
		func(ctx context.Context, r *benchRun) error {
			kinds, err := r.kinds(ctx)
			if err != nil {
				return err
			}
			dir, err := currentDir()
			if err != nil {
				return err
			}
			return r.inLab(ctx, "", func(lab *bench.Lab) error {
				work, err := lab.OpenWork(ctx, kinds, dir)
				if err != nil {
					return err
				}
				return r.measure(ctx, work.Scenarios())
			})
		})
}
