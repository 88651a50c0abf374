package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/reach"
	"agentbox/agentbox/workspace"
)

// machine is where the daemon is that a verb talks to: here, or on the machine that --host names.
type machine interface {
	Connect(context.Context) (*api.Client, error)
	Status(context.Context) (api.DaemonStatus, error)
	Stop(context.Context) error
	Log(context.Context, api.LogRequest, io.Writer) error
	Box(context.Context, agentbox.BoxID) (net.Conn, error)
}

func (a *app) machine() (machine, error) {
	if a.host == "" {
		return a.here, nil
	}
	return a.there()
}

// there returns the machine that --host names, once for a command line.
func (a *app) there() (*reach.There, error) {
	a.findHost.Do(func() { a.hostFound, a.hostErr = a.here.There(a.host) })
	return &a.hostFound, a.hostErr
}

// daemon returns a client of the daemon that this command line means. The caller closes it.
func (a *app) daemon(ctx context.Context) (*api.Client, error) {
	m, err := a.machine()
	if err != nil {
		return nil, err
	}
	return m.Connect(ctx)
}

// onlyHere are the commands that need files or secrets of this machine where the daemon is, with what
// to do instead.
var onlyHere = map[string]string{
	"task schedule": "it would need the checkout each time: run it there",
	"daemon":        "agentbox daemon start starts the one there",
	"bench":         "run it there",
	"project":       "run it there",
	"serve":         "run it there, and reach it by ssh -L",
	"ui":            "run it there, and reach it by ssh -L",
	"service":       "run it there",
	"image export":  "run it there",
	"image import":  "run it there",
	"init":          "leave out --host",
	"mcp":           "run it there: its client can start ssh MACHINE agentbox mcp",
}

// checkout is what a verb works on: the current directory or, on another machine, what of its
// checkout was brought there.
type checkout struct {
	directory string
	source    *agentbox.SourceRef
}

// checkout is the checkout of the current directory, which --host gets as it is now, once.
func (a *app) checkout(ctx context.Context) (checkout, error) {
	dir, err := currentDir()
	if a.host == "" || err != nil {
		return checkout{directory: dir}, err
	}
	if a.brought == nil {
		p := a.newProgress()
		a.brought, err = a.bring(ctx, dir, p.event)
		p.close()
	}
	if err != nil {
		return checkout{}, err
	}
	return checkout{a.brought.Directory, a.brought}, nil
}

// bring captures a checkout and brings it to the machine of --host, without the files that are there
// already. No filter or program of the repository runs (package source).
func (a *app) bring(ctx context.Context, dir string, progress agentbox.Progress) (*agentbox.SourceRef, error) {
	there, err := a.daemon(ctx)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	here, err := a.here.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer here.Close()
	c, err := api.Call(ctx, here, api.CaptureSource, api.CaptureRequest{Directory: dir}, progress)
	if err != nil {
		return nil, err
	}
	for _, note := range c.Notes {
		progress.Note(note)
	}
	end := progress.Begin("source", "the checkout goes to "+a.host)
	c.Source.Directory = fromHere(c.Source.Directory)
	sent, err := api.SendSource(ctx, here, there, c.Source)
	switch {
	case err == nil:
		end(sent.Source.Digest.Short() + ", on " + a.host)
		return &sent.Source, nil
	case api.IsUnreachable(err):
		err = agentbox.Errorf(agentbox.Unavailable, "the checkout did not get to %s: %w", a.host, err).WithHint("run the command again: nothing there has changed")
	}
	return nil, err
}

// fromHere is a directory of this machine for another one, to which a box made from it belongs.
func fromHere(dir string) string {
	name, err := os.Hostname()
	if err != nil {
		name = "elsewhere"
	}
	return name + ":" + dir
}

func (a *app) checkHere(cmd *cli.Command) error {
	name := strings.TrimPrefix(cmd.FullName(), "agentbox ")
	hint, listed := onlyHere[name]
	if group, _, sub := strings.Cut(name, " "); sub && !listed && group != "daemon" {
		hint, listed = onlyHere[group]
	}
	if a.host == "" || !listed {
		return nil
	}
	return agentbox.Errorf(agentbox.Invalid, "%s works on this machine only, and not with --host %s", name, a.host).WithHint("%s", strings.ReplaceAll(hint, "HOST", a.host))
}

// refThere is ref for another machine, to which paths of this one mean nothing. The box of this
// directory's branch is that which was made from it. If it cannot be found, the daemon says so.
func (a *app) refThere(arg string) api.BoxRef {
	if arg != "" {
		return api.BoxRef{Box: arg}
	}
	ctx := context.Background()
	dir, err := currentDir()
	var repo workspace.Repo
	if err == nil {
		repo, err = workspace.Describe(ctx, dir)
	}
	client, dialErr := a.daemon(ctx)
	if err != nil || dialErr != nil {
		return api.BoxRef{Directory: fromHere(dir)}
	}
	defer client.Close()
	boxes, _ := api.Call(ctx, client, api.ListBoxes, api.ListRequest{}, nil)
	for _, b := range boxes {
		if b.Elsewhere && b.Directory == fromHere(repo.Root) && (b.Branch == repo.Branch || b.Lifetime != agentbox.LifetimeBranch) {
			return api.BoxRef{Box: b.ID.String()}
		}
	}
	return api.BoxRef{Directory: fromHere(repo.Root)}
}

func (a *app) arrive(ctx context.Context, ports []agentbox.Port) ([]agentbox.Port, error) {
	if a.host == "" {
		return ports, nil
	}
	t, err := a.there()
	if err != nil {
		return nil, err
	}
	out := make([]agentbox.Port, len(ports))
	for i, p := range ports {
		at, err := netip.ParseAddrPort(p.Host)
		if err != nil {
			return nil, err
		}
		here, err := t.Forward(ctx, int(at.Port()))
		if err != nil {
			return nil, err
		}
		out[i] = agentbox.Port{Box: p.Box, Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(here))}
	}
	return out, nil
}

func (a *app) reportArrived(ctx context.Context, box agentbox.BoxID) error {
	b, err := call(ctx, a, api.ShowBox, api.BoxRef{Box: box.String()})
	if err != nil {
		return err
	}
	ports, err := a.arrive(ctx, b.Ports)
	for _, p := range ports {
		if !a.quiet {
			fmt.Fprintf(a.stderr, "port %d of the box is at %s here\n", p.Box, p.Host)
		}
	}
	return err
}

// hostCommand is `host`: the machines that --host means.
func (a *app) hostCommand() *cli.Command {
	return &cli.Command{
		Name: "host", Category: catHost, Usage: "add, list and remove other machines, which --host NAME means",
		Commands: []*cli.Command{
			a.hostAddCommand(),
			{Name: "ls", Usage: "list the other machines", Action: func(context.Context, *cli.Command) error {
				all, err := a.here.Hosts()
				if err != nil {
					return err
				}
				return a.report(listed(all, []string{"NAME", "MACHINE", "BUILD", "ADDED"}, func(h reach.Host) (string, []string) {
					return h.Name, []string{h.Name, h.Target, h.Build, agoText(h.Added) + " ago"}
				}))
			}},
			{Name: "rm", Usage: "forget a machine; its boxes and what was brought there stay", ArgsUsage: "HOST", Action: func(ctx context.Context, cmd *cli.Command) error {
				return a.here.Forget(ctx, cmd.Args().First())
			}},
		},
	}
}

// hostAddCommand is `host add`. --json prints a reach.Host; --quiet the name.
func (a *app) hostAddCommand() *cli.Command {
	var yes bool
	return &cli.Command{
		Name: "add", Usage: "bring this program to a machine that ssh reaches, and start its daemon there", ArgsUsage: "HOST ssh://[USER@]MACHINE[:PORT]",
		Description: "It asks before it changes anything there. MACHINE may be a Host of ~/.ssh/config; keys are not copied. lima://INSTANCE is a machine by Lima. Do it again after an update.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask", Destination: &yes}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			h, err := a.here.Add(ctx, cmd.Args().First(), cmd.Args().Get(1), func(b reach.Bringing) error {
				what := fmt.Sprintf("%s gets %s (%s), and its daemon runs there", b.Target, b.Program, bytesText(b.Size))
				if b.Present {
					what = fmt.Sprintf("%s has %s already; its daemon runs there", b.Target, b.Program)
				}
				if yes || a.interactive() && a.askYesNo(what+". go on?") {
					return nil
				}
				return agentbox.Errorf(agentbox.Conflict, "nothing was changed on %s: %s", b.Target, what).WithHint("if you agree: agentbox host add --yes %s %s", b.Name, b.Target)
			})
			if err != nil {
				return err
			}
			return a.report(facts{value: h, ids: []string{h.Name}, text: fmt.Sprintf("host %s is %s; for example: agentbox --host %s ls", h.Name, h.Target, h.Name)})
		},
	}
}

// hostEnv names the machine of a command line without --host.
const hostEnv = "AGENTBOX_HOST"

// proxyEnviron is what a program that stock ssh runs needs to find the same daemon.
func (a *app) proxyEnviron() []string {
	env := a.here.Environ()
	if a.host != "" || os.Getenv(hostEnv) != "" {
		env = append(env, hostEnv+"="+a.host)
	}
	return env
}
