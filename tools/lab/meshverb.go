package cli

import (
	"context"
	"errors"
	"os"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/bench"
)

// benchMeshCommand is `bench mesh`. Its machines are processes of this binary (benchMeshNode) in
// network namespaces.
func (a *app) benchMeshCommand() *cli.Command {
	large, small, peers := "1GiB", "64MiB", ""
	cmd := a.benchVerb("mesh", "measure transfers between the machines of a team, in network namespaces",
		"Real processes in namespaces of their own, joined by links of 1 Gbit/s and 100 Mbit/s, and a simulation of 16 and 1,000 machines.\n"+
			"Needs root, except for mesh/simulated-*. Each machine of a swarm is a sample. Let nothing else run meanwhile.", 15,
		func(ctx context.Context, r *benchRun) error { return r.mesh(ctx, large, small, peers) })
	cmd.Flags = append(cmd.Flags,
		&cli.StringFlag{Name: "large", Value: large, Usage: "`SIZE` of the image that one machine sends to one other", Destination: &large},
		&cli.StringFlag{Name: "peers", Usage: "also measure rsync, a registry and IPFS, with the programs in `DIRECTORY` (make bench-peers fills build/peers) or, if it has none, those in PATH", Destination: &peers},
		&cli.StringFlag{Name: "small", Value: small, Usage: "`SIZE` of the image that one machine sends to many", Destination: &small})
	return cmd
}

// mesh measures the mesh. Without root it skips what needs root. The report names what was skipped;
// this is not a failure.
func (r *benchRun) mesh(ctx context.Context, large, small, peers string) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	cfg := bench.MeshConfig{Dir: r.a.home.Dir, Binary: binary, Peers: peers != "", Tools: peers, Progress: r.say}
	if cfg.Large, err = config.ParseSize(large); err == nil {
		cfg.Small, err = config.ParseSize(small)
	}
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "%w", err)
	}
	if err := r.a.home.Create(); err != nil {
		return err
	}
	lab, err := bench.OpenMeshLab(cfg)
	if err != nil {
		return err
	}
	r.report.Missing = lab.Missing(r.patterns())
	return errors.Join(r.measure(ctx, lab.Scenarios()), lab.Close())
}

// benchMeshNode is the hidden verb that runs one machine of the benchmark. It reads commands from
// standard input; see bench.RunMeshNode.
func (a *app) benchMeshNode() *cli.Command {
	return &cli.Command{
		Name: bench.MeshNodeVerb, Hidden: true, Usage: "run one machine of bench mesh", ArgsUsage: "DIRECTORY",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return bench.RunMeshNode(ctx, cmd.Args().First(), os.Stdin, a.stdout)
		},
	}
}
