package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// portsCommand is `ports`. Opening a port wakes the box; listing does not.
func (a *app) portsCommand() *cli.Command {
	var closing bool
	return &cli.Command{
		Name: "ports", Category: catInside, Usage: "forward ports of a box to this machine, or list the forwarded ports", ArgsUsage: "[BOX] [PORT | HOST:PORT]...",
		Description: "PORT of the box is forwarded to the same port of localhost, or to a free one if that is in use. HOST:PORT chooses the port of\n" +
			"localhost and replaces an earlier choice. Without PORT it lists the forwarded ports.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "close", Usage: "stop forwarding PORT", Destination: &closing}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			box, wanted, err := parsePorts(cmd.Args().Slice())
			if err != nil {
				return err
			}
			ref := a.ref(box)
			switch {
			// Otherwise, forgetting one word would close all ports.
			case closing && len(wanted) == 0:
				return agentbox.Errorf(agentbox.Invalid, "no port given to close").WithHint("agentbox ports lists them")
			case closing:
				return a.closePorts(ctx, ref, wanted)
			case len(wanted) == 0:
				return a.listPorts(ctx, ref)
			}
			return a.openPorts(ctx, ref, wanted)
		},
	}
}

// portPair is a port of a box and the port of this machine that leads to it. host 0 means any port.
// On the command line it is HOST:BOX, like docker's -p.
type portPair struct{ host, box int }

// parsePorts parses an optional box followed by ports. A first argument that is a port number is a
// port, not a box.
func parsePorts(args []string) (box string, ports []portPair, err error) {
	if len(args) > 0 {
		// `ports 3000` means a port of this directory's box; `ports web` lists those of box web.
		if _, err := parsePort(args[0]); err != nil && !looksLikePort(args[0]) {
			box, args = args[0], args[1:]
		}
	}
	for _, arg := range args {
		p, err := parsePort(arg)
		if err != nil {
			return "", nil, err
		}
		ports = append(ports, p)
	}
	return box, ports, nil
}

// looksLikePort tells a mistyped port from a box: IDs have twelve digits, ports at most five.
func looksLikePort(s string) bool {
	return strings.Contains(s, ":") || len(s) <= 6 && strings.Trim(s, "0123456789") == ""
}

// parsePort parses PORT or HOST:PORT, decimal numbers from 1 to 65535. Anything else is Invalid.
func parsePort(s string) (portPair, error) {
	host, box, both := strings.Cut(s, ":")
	if !both {
		host, box = "0", host
	}
	h, herr := strconv.ParseUint(host, 10, 16)
	b, berr := strconv.ParseUint(box, 10, 16)
	if herr != nil || berr != nil || b == 0 || both && h == 0 {
		return portPair{}, agentbox.Errorf(agentbox.Invalid, "%q is not a port", s).WithHint("write 3000, or 8080:3000 to forward port 3000 of the box to localhost:8080")
	}
	return portPair{host: int(h), box: int(b)}, nil
}

func (a *app) listPorts(ctx context.Context, ref api.BoxRef) error {
	b, err := call(ctx, a, api.ShowBox, ref)
	if err != nil {
		return err
	}
	return a.printPorts(ctx, b.Ports)
}

// openPorts opens ports in order and prints them. If one cannot be opened, those before it stay.
func (a *app) openPorts(ctx context.Context, ref api.BoxRef, wanted []portPair) error {
	var open []agentbox.Port
	for _, w := range wanted {
		p, err := call(ctx, a, api.OpenPort, api.PortRequest{BoxRef: ref, Port: w.box, Host: w.host})
		if err != nil {
			return err
		}
		open = append(open, p)
	}
	return a.printPorts(ctx, open)
}

// closePorts closes ports of the box, whichever port of this machine leads to them.
func (a *app) closePorts(ctx context.Context, ref api.BoxRef, wanted []portPair) error {
	for _, w := range wanted {
		if _, err := call(ctx, a, api.ClosePort, api.PortRequest{BoxRef: ref, Port: w.box}); err != nil {
			return err
		}
	}
	return nil
}

// printPorts prints forwarded ports. --json prints a list of agentbox.Port; --quiet the addresses.
func (a *app) printPorts(ctx context.Context, ports []agentbox.Port) error {
	ports, err := a.arrive(ctx, ports)
	if err != nil {
		return err
	}
	return a.report(listed(ports, []string{"PORT", "ADDRESS"}, func(p agentbox.Port) (string, []string) {
		return p.Host, []string{strconv.Itoa(p.Box), p.Host}
	}))
}
