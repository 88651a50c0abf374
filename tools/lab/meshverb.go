package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/bench"
)

// meshVerb is `lab mesh`. Its machines are processes of this program (meshNodeVerb) in network
// namespaces, and those that enter boxes are daemons of agentbox.
func meshVerb(out io.Writer) *cli.Command {
	large, small, peers := "1GiB", "64MiB", ""
	cmd := verb("mesh", "measure transfers between the machines of a team, in network namespaces",
		"Real processes in namespaces of their own, joined by links of 1 Gbit/s and 100 Mbit/s, and a simulation of 16 and 1,000 machines.\n"+
			"Needs root, except for mesh/simulated-*. Each machine of a swarm is a sample. Let nothing else run meanwhile.", 15, out,
		func(ctx context.Context, r *bench.Run) error { return measureMesh(ctx, r, large, small, peers) })
	cmd.Flags = append(cmd.Flags,
		&cli.StringFlag{Name: "large", Value: large, Usage: "`SIZE` of the image that one machine sends to one other", Destination: &large},
		&cli.StringFlag{Name: "peers", Usage: "also measure rsync, a registry and IPFS, with the programs in `DIRECTORY` (make bench-peers fills build/peers) or, if it has none, those in PATH", Destination: &peers},
		&cli.StringFlag{Name: "small", Value: small, Usage: "`SIZE` of the image that one machine sends to many", Destination: &small})
	return cmd
}

// measureMesh measures the mesh. Without root it skips what needs root. The report names what was
// skipped; this is not a failure.
func measureMesh(ctx context.Context, r *bench.Run, large, small, peers string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg := MeshConfig{Dir: r.Home.Dir, Binary: r.Binary, Node: self, Peers: peers != "", Tools: peers, Progress: r.Progress}
	if cfg.Large, err = config.ParseSize(large); err == nil {
		cfg.Small, err = config.ParseSize(small)
	}
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "%w", err)
	}
	if err := r.Home.Create(); err != nil {
		return err
	}
	lab, err := OpenMeshLab(cfg)
	if err != nil {
		return err
	}
	r.Report.Missing = lab.Missing(r.Patterns())
	return errors.Join(r.Measure(ctx, lab.Scenarios()), lab.Close())
}

// meshNodeVerb is the hidden verb that runs one machine of the benchmark. It reads commands from
// standard input; see RunMeshNode.
func meshNodeVerb(out io.Writer) *cli.Command {
	return &cli.Command{
		Name: MeshNodeVerb, Hidden: true, Usage: "run one machine of lab mesh", ArgsUsage: "DIRECTORY",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return RunMeshNode(ctx, cmd.Args().First(), os.Stdin, out)
		},
	}
}
