package cli

import (
	"context"
	"errors"
	"path/filepath"
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
			"restic and desync are built where they are missing and a Go toolchain is at hand. Let nothing else run meanwhile.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "runs", Value: 5, Usage: "take `N` samples of each scenario", Destination: &req.runs},
			&cli.StringFlag{Name: "json", Usage: "write the report to `FILE`, - for standard output", Destination: &req.json},
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
	scenarios, err := bench.Select(lab.Scenarios(), only)
	if err != nil {
		return report, err
	}
	report.Scenarios, err = bench.Runner{Runs: req.runs, Progress: p.event}.Run(ctx, scenarios)
	return report, err
}
