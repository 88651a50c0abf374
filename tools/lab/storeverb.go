package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/bench"
)

// storeVerb is `lab store`. Five samples are enough, because each moves hundreds of megabytes.
func storeVerb(out io.Writer) *cli.Command {
	return verb("store", "measure the store, compared with sha256sum, cp, restic and desync",
		"Uses a temporary disk image (2 GiB with 600 MiB of this machine's files) and up to 4 GiB of space. If restic or desync is missing,\n"+
			"it is built with the Go toolchain, if there is one. store/lazy-… measure a box whose image arrives over a link of 1 Gbit/s\n"+
			"while the box runs. Let nothing else run meanwhile.", 5, out, measureStore)
}

// measureStore measures the store. If any such scenario is chosen, it then measures boxes whose
// image is fetched lazily. These come last because they need a lab with a daemon, which is opened
// only then.
func measureStore(ctx context.Context, r *bench.Run) error {
	if err := r.Home.Create(); err != nil {
		return err
	}
	lab, err := OpenStoreLab(ctx, StoreConfig{
		Dir: r.Home.Dir, Tools: filepath.Join(r.Home.State(), "bench-tools"),
		Size: StoreImageSize, Files: StoreImageFiles, Progress: r.Progress,
	})
	if err != nil {
		return err
	}
	return errors.Join(measureStoreIn(ctx, r, lab), lab.Close())
}

// measureStoreIn measures the chosen scenarios in an open lab, which the caller closes.
func measureStoreIn(ctx context.Context, r *bench.Run, lab *StoreLab) error {
	lazy := func(s bench.Scenario) bool { return IsLazy(s.Name) }
	scenarios, err := bench.Select(append(lab.Scenarios(), (&LazyLab{}).Scenarios(agentbox.Box{})...), r.Patterns())
	if err != nil {
		return err
	}
	files := slices.DeleteFunc(slices.Clone(scenarios), lazy)
	prepared, err := lab.Prepare(ctx, files)
	if err == nil && len(prepared) > 0 {
		err = r.Measure(ctx, prepared)
	}
	if err != nil || len(files) == len(scenarios) {
		return err
	}
	return measureLazy(ctx, r)
}

// measureLazy measures boxes with lazily fetched images. Nothing else in this benchmark needs boxes.
func measureLazy(ctx context.Context, r *bench.Run) error {
	lab, box, err := OpenLazyLab(ctx, r.LabConfig(r.Isolation))
	if err != nil {
		return err
	}
	return errors.Join(r.Measure(ctx, lab.Scenarios(box)), lab.Close(ctx))
}
