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
	return a.benchVerb("store", "measure the store, compared with sha256sum, cp, restic and desync",
		"Uses a temporary disk image (2 GiB with 600 MiB of this machine's files) and up to 4 GiB of space. If restic or desync is missing,\n"+
			"it is built with the Go toolchain, if there is one. store/lazy-… measure a box whose image arrives over a link of 1 Gbit/s\n"+
			"while the box runs. Let nothing else run meanwhile.", 5,
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

// storeIn measures the chosen scenarios in an open lab, which the caller closes.
func (r *benchRun) storeIn(ctx context.Context, lab *bench.StoreLab) error {
	lazy := func(s bench.Scenario) bool { return bench.IsLazy(s.Name) }
	scenarios, err := r.choose(append(lab.Scenarios(), (&bench.LazyLab{}).Scenarios(agentbox.Box{})...))
	if err != nil {
		return err
	}
	files := slices.DeleteFunc(slices.Clone(scenarios), lazy)
	prepared, err := lab.Prepare(ctx, files)
	if err == nil && len(prepared) > 0 {
		err = r.measure(ctx, prepared)
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
	return errors.Join(r.measure(ctx, lab.Scenarios(box)), lab.Close(ctx))
}
