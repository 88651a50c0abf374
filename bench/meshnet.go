package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentbox/agentbox"
)

// links is a network of its own: a namespace with a bridge, and one per machine, joined to it by a
// veth whose both directions carry so much.
type links struct {
	prefix   string
	machines int
}

const linksPrefix = "abmesh"

// newLinks makes a network of n machines with rate bits a second each, 0 for as fast as it goes.
// Without n > 1 it is one machine with its loopback.
func newLinks(ctx context.Context, n int, rate int64) (_ *links, err error) {
	if os.Geteuid() != 0 {
		return nil, agentbox.Errorf(agentbox.Missing, "network namespaces need root").WithHint("run agentbox bench mesh as root; --only 'mesh/simulated-*' needs none")
	}
	if err := sweepLinks(ctx); err != nil {
		return nil, err
	}
	l := &links{prefix: fmt.Sprintf("%s%d-", linksPrefix, os.Getpid()), machines: n}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close(ctx))
		}
	}()
	if err := run(ctx, "ip", "netns", "add", l.hub()); err != nil {
		return nil, err
	}
	if err := run(ctx, "ip", "-n", l.hub(), "link", "add", "bridge", "type", "bridge"); err != nil {
		return nil, err
	}
	if err := run(ctx, "ip", "-n", l.hub(), "link", "set", "bridge", "up"); err != nil {
		return nil, err
	}
	for i := range n {
		if err := l.join(ctx, i, rate); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// join adds a machine.
func (l *links) join(ctx context.Context, i int, rate int64) error {
	port := "port" + strconv.Itoa(i)
	steps := [][]string{
		{"ip", "netns", "add", l.name(i)},
		{"ip", "-n", l.name(i), "link", "set", "lo", "up"},
		{"ip", "-n", l.name(i), "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", l.hub()},
		{"ip", "-n", l.name(i), "addr", "add", l.address(i).String() + "/24", "dev", "eth0"},
		{"ip", "-n", l.name(i), "link", "set", "eth0", "up"},
		{"ip", "-n", l.hub(), "link", "set", port, "master", "bridge", "up"},
	}
	if rate > 0 {
		shape := []string{"root", "tbf", "rate", strconv.FormatInt(rate, 10), "burst", strconv.FormatInt(max(64<<10, rate/8/250), 10), "latency", "30ms"}
		steps = append(steps,
			append([]string{"tc", "-n", l.name(i), "qdisc", "add", "dev", "eth0"}, shape...),
			append([]string{"tc", "-n", l.hub(), "qdisc", "add", "dev", port}, shape...))
	}
	for _, s := range steps {
		if err := run(ctx, s[0], s[1:]...); err != nil {
			return err
		}
	}
	return nil
}

func (l *links) hub() string { return l.prefix + "hub" }

func (l *links) name(i int) string { return l.prefix + strconv.Itoa(i) }

// address is that of a machine, in a block that no network a host could mean uses (RFC 2544).
func (l *links) address(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 19, 77, byte(1 + i)}) }

// command runs a program on a machine. It dies with this process.
func (l *links) command(ctx context.Context, i int, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", l.name(i), program}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// close removes the network, whatever there is of it.
func (l *links) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTime)
	defer cancel()
	return removeNamespaces(ctx, func(name string) bool { return strings.HasPrefix(name, l.prefix) })
}

// sweepLinks removes the networks of benchmarks that were killed.
func sweepLinks(ctx context.Context) error {
	return removeNamespaces(ctx, func(name string) bool {
		rest, ours := strings.CutPrefix(name, linksPrefix)
		text, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(text)
		return ours && err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}

func removeNamespaces(ctx context.Context, which func(name string) bool) error {
	out, err := exec.CommandContext(ctx, "ip", "netns", "list").Output()
	if err != nil {
		return fmt.Errorf("ip netns list: %w", err)
	}
	var errs []error
	for _, line := range strings.Split(string(out), "\n") {
		if name, _, _ := strings.Cut(line, " "); name != "" && which(name) {
			errs = append(errs, run(ctx, "ip", "netns", "del", name))
		}
	}
	return errors.Join(errs...)
}

// run runs a program that says on standard error what it could not do.
func run(ctx context.Context, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return agentbox.Errorf(agentbox.Missing, "%s %s: %w: %.200s", program, strings.Join(args, " "), err, strings.TrimSpace(string(out))).
			WithHint("iproute2 has ip and tc; the kernel needs veth, bridge and tbf")
	}
	return nil
}
