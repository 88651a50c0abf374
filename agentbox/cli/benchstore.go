package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/bench"
)

func (a *app) benchStoreCommand() *cli.Command {
	var req benchRequest
	return &cli.Command{
		Name: "store", Usage: "measure the store beside sha256sum, cp, restic and desync",
		Description: "Works on a disk image of its own (2 GiB with 600 MiB of this machine's files), which is gone afterwards and needs 4 GiB meanwhile.\n" +
			"restic and desync are built where they are missing and a Go toolchain is at hand. store/lazy-… measure a box whose image comes over\n" +
			"a link of 1 Gbit/s as it is needed. Let nothing else run meanwhile.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "runs", Value: 5, Usage: "take `N` samples of each scenario", Destination: &req.runs},
			&cli.StringFlag{Name: "json", Usage: "write the report to `FILE`, - for standard output", Destination: &req.json},
			&cli.StringFlag{Name: "isolation", Usage: "`KIND` of machine for what needs a box: auto, microvm, gvisor", Destination: &req.isolation},
			&cli.StringSliceFlag{Name: "only", Usage: "only scenarios whose name matches `GLOB`, as 'store/*'; several with commas", Destination: &req.only},
		},
		Action: func(ctx context.Context, _ *cli.Command) error {
			if req.runs < 1 || req.runs > maxRuns {
				return agentbox.Errorf(agentbox.Invalid, "--runs %d is not between 1 and %d", req.runs, maxRuns)
			}
			report, err := a.benchStore(ctx, req)
			if err != nil {
				return interrupted(ctx, err)
			}
			return a.printReport(report, req.json)
		},
	}
}

func (a *app) benchStore(ctx context.Context, req benchRequest) (report bench.Report, err error) {
	report = bench.Report{Schema: bench.Schema, Version: buildID(), Started: time.Now().UTC().Truncate(time.Second), Machine: bench.ThisMachine(ctx)}
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
	only := strings.FieldsFunc(strings.Join(req.only, ","), func(r rune) bool { return r == ',' })
	scenarios, err := bench.Select(append(lab.Scenarios(), (&bench.LazyLab{}).Scenarios(agentbox.Box{})...), only)
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
	return report, a.benchLazy(ctx, req, only, p.event, run)
}

// benchLazy measures boxes, which the rest of the store's benchmark does not need.
func (a *app) benchLazy(ctx context.Context, req benchRequest, only []string, progress agentbox.Progress, run func([]bench.Scenario) error) (err error) {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	lab, box, err := bench.OpenLazyLab(ctx, bench.Config{Home: a.home, Binary: binary, Isolation: agentbox.Isolation(req.isolation), Progress: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close(ctx)) }()
	scenarios, err := bench.Select(lab.Scenarios(box), only)
	if err != nil {
		return err
	}
	return run(scenarios)
}
