package cli

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/bench"
)

// benchStoreCommand is `bench store`. Five samples are enough, because each moves hundreds of
// megabytes.
func (a *app) benchStoreCommand() *cli.Command {
	return a.benchVerb("store", "measure the store beside sha256sum, cp, restic and desync",
		"Works on a disk image of its own (2 GiB with 600 MiB of this machine's files), which is gone afterwards and needs 4 GiB meanwhile.\n"+
			"restic and desync are built where they are missing and a Go toolchain is at hand. store/lazy-… measure a box whose image comes over\n"+
			"a link of 1 Gbit/s as it is needed. Let nothing else run meanwhile.", 5,
		func(ctx context.Context, r *benchRun) error { return r.store(ctx) })
}

// store measures the store. If any such scenario is chosen, it then measures boxes whose image is
// fetched lazily. These come last because they need a lab with a daemon, which is opened only then.
func (r *benchRun) store(ctx context.Context) error {
	if err := r.a.home.Create(); err != nil {
		return err
	}
	lab, err := bench.OpenStoreLab(ctx, bench.StoreConfig{
		Dir: r.a.home.Dir, Tools: filepath.Join(r.a.home.State(), "bench-tools"),
		Size: bench.StoreImageSize, Files: bench.StoreImageFiles, Progress: r.say,
	})
	if err != nil {
		return err
	}
	return errors.Join(r.storeIn(ctx, lab), lab.Close())
}

func (r *benchRun) storeIn(ctx context.Context, lab *bench.StoreLab) error {
	lazy := func(s bench.Scenario) bool { return bench.IsLazy(s.Name) }
	scenarios, err := r.choose(append(lab.Scenarios(), (&bench.LazyLab{}).Scenarios(agentbox.Box{})...))
	if err != nil {
		return err
	}
	files := slices.DeleteFunc(slices.Clone(scenarios), lazy)
	prepared, err := lab.Prepare(ctx, files)
	if err == nil && len(prepared) > 0 {
		err = r.take(ctx, prepared)
	}
	if err != nil || len(files) == len(scenarios) {
		return err
	}
	return r.lazy(ctx)
}

// lazy measures boxes with lazily fetched images. Nothing else in this benchmark needs boxes.
func (r *benchRun) lazy(ctx context.Context) error {
	cfg, err := r.config(agentbox.Isolation(r.isolation))
	if err != nil {
		return err
	}
	lab, box, err := bench.OpenLazyLab(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(r.take(ctx, lab.Scenarios(box)), lab.Close(ctx))
}
