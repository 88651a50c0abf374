package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/bench"
)

// benchStoreCommand is `bench store`. Five samples are enough where each moves hundreds of
// megabytes.
func (a *app) benchStoreCommand() *cli.Command {
	return a.benchVerb("store", "measure the store beside sha256sum, cp, restic and desync",
		"Works on a disk image of its own (2 GiB with 600 MiB of this machine's files), which is gone afterwards and needs 4 GiB meanwhile.\n"+
			"restic and desync are built where they are missing and a Go toolchain is at hand. store/lazy-… measure a box whose image comes over\n"+
			"a link of 1 Gbit/s as it is needed. Let nothing else run meanwhile.", 5,
		func(ctx context.Context, req benchRequest) (bench.Report, error) {
			report, err := a.benchStore(ctx, req)
			return report, interrupted(ctx, err)
		})
}

// benchStore measures the store, and then boxes whose image comes lazily, if any such scenario is
// chosen: they come last in the list and need a lab with a daemon, which is opened only then. What
// was measured before a failure is in the report.
func (a *app) benchStore(ctx context.Context, req benchRequest) (report bench.Report, err error) {
	report = newReport(ctx)
	p := a.newProgress()
	defer p.close()
	if err := a.home.Create(); err != nil {
		return report, err
	}
	lab, err := bench.OpenStoreLab(ctx, bench.StoreConfig{
		Dir: a.home.Dir, Tools: filepath.Join(a.home.State(), "bench-tools"),
		Size: bench.StoreImageSize, Files: bench.StoreImageFiles, Progress: p.event,
	})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	scenarios, err := bench.Select(append(lab.Scenarios(), (&bench.LazyLab{}).Scenarios(agentbox.Box{})...), req.patterns())
	if err != nil {
		return report, err
	}
	first := slices.IndexFunc(scenarios, func(s bench.Scenario) bool { return bench.IsLazy(s.Name) })
	if first < 0 {
		first = len(scenarios)
	}
	run := func(scenarios []bench.Scenario) error {
		taken, err := bench.Runner{Runs: req.runs, Progress: p.event}.Run(ctx, scenarios)
		report.Scenarios = append(report.Scenarios, taken...)
		return err
	}
	files, err := lab.Prepare(ctx, scenarios[:first])
	if err == nil {
		err = run(files)
	}
	if err != nil || first == len(scenarios) {
		return report, err
	}
	return report, a.benchLazy(ctx, req, p.event, run)
}

// benchLazy measures boxes, which the rest of the store's benchmark does not need.
func (a *app) benchLazy(ctx context.Context, req benchRequest, progress agentbox.Progress, run func([]bench.Scenario) error) (err error) {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	lab, box, err := bench.OpenLazyLab(ctx, bench.Config{Home: a.home, Binary: binary, Isolation: agentbox.Isolation(req.isolation), Progress: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close(ctx)) }()
	scenarios, err := bench.Select(lab.Scenarios(box), req.patterns())
	if err != nil {
		return err
	}
	return run(scenarios)
}
