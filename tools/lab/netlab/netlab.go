package netlab

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

// Net is a network of its own: a namespace with a bridge, and one per machine, connected to it by a
// veth. Machines are numbered from 0. Its methods are called by one goroutine at a time.
type Net struct {
	prefix   string
	machines int
}

// namePrefix starts the name of every namespace; the pid of its process follows.
const namePrefix = "abmesh"

// Times for the programs that make and remove a network. They take milliseconds; a loaded machine
// some seconds.
const (
	runTime    = 20 * time.Second
	removeTime = time.Minute
)

// New makes a network of n machines, at most 254, whose links carry rate bits a second in each
// direction, 0 for no limit. It removes networks of killed processes first. Without root it is an
// error of code Missing, as without iproute2 or the kernel's support. Close removes it.
func New(ctx context.Context, n int, rate int64) (_ *Net, err error) {
	if os.Geteuid() != 0 {
		return nil, agentbox.Errorf(agentbox.Missing, "network namespaces need root")
	}
	if err := sweep(ctx); err != nil {
		return nil, err
	}
	l := &Net{prefix: fmt.Sprintf("%s%d-", namePrefix, os.Getpid()), machines: n}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close(ctx))
		}
	}()
	err = run(ctx,
		"ip netns add "+l.hub(),
		"ip -n "+l.hub()+" link add bridge type bridge mcast_snooping 0",
		"ip -n "+l.hub()+" link set bridge up")
	for i := 0; i < n && err == nil; i++ {
		err = l.join(ctx, i, rate)
	}
	return l, err
}

func (l *Net) join(ctx context.Context, i int, rate int64) error {
	machine, hub := "-n "+l.Name(i), "-n "+l.hub()
	err := run(ctx,
		"ip netns add "+l.Name(i),
		"ip "+machine+" link set lo up",
		"ip "+machine+" link add eth0 type veth peer name "+port(i)+" netns "+l.hub(),
		"ip "+machine+" addr add "+l.Address(i).String()+"/24 dev eth0",
		"ip "+machine+" link set eth0 up",
		"ip "+hub+" link set "+port(i)+" master bridge up")
	if err != nil || rate == 0 {
		return err
	}
	// A token bucket on both ends of the cable: a burst of 4 ms, at least 64 KiB, so that timers
	// keep up with the rate.
	shape := fmt.Sprintf(" root tbf rate %d burst %d latency 30ms", rate, max(64<<10, rate/8/250))
	return run(ctx, "tc "+machine+" qdisc add dev eth0"+shape, "tc "+hub+" qdisc add dev "+port(i)+shape)
}

func (l *Net) hub() string { return l.prefix + "hub" }

// Name is the namespace of a machine.
func (l *Net) Name(i int) string { return l.prefix + strconv.Itoa(i) }

// Address is that of a machine, in a block that no host's network uses (RFC 2544).
func (l *Net) Address(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 19, 77, byte(1 + i)}) }

// Command prepares to run a program on a machine; the caller starts it. It dies with the thread
// that starts it, or when ctx ends: nothing of a network outlives its process.
func (l *Net) Command(ctx context.Context, i int, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", l.Name(i), program}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Close removes whatever exists of the network, even when ctx has ended. Programs in it continue
// without a network.
func (l *Net) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	return removeNamespaces(ctx, func(name string) bool { return strings.HasPrefix(name, l.prefix) })
}

// sweep removes the networks of killed processes.
func sweep(ctx context.Context) error {
	return removeNamespaces(ctx, func(name string) bool {
		rest, ours := strings.CutPrefix(name, namePrefix)
		text, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(text)
		return ours && err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}

// Configure changes the links of a machine (ip -n), as `addr add 198.19.77.9/24 dev eth0`.
func (l *Net) Configure(ctx context.Context, i int, args ...string) error {
	return run(ctx, "ip -n "+l.Name(i)+" "+strings.Join(args, " "))
}

// MTU sets the size limit of packets on all links, in bytes.
func (l *Net) MTU(ctx context.Context, bytes int) error {
	var errs []error
	for i := range l.machines {
		mtu := " mtu " + strconv.Itoa(bytes)
		errs = append(errs, l.Configure(ctx, i, "link set eth0"+mtu), l.setPort(ctx, i, mtu))
	}
	return errors.Join(errs...)
}

// Cut unplugs the cable of a machine, or plugs it in.
func (l *Net) Cut(ctx context.Context, i int, cut bool) error {
	if cut {
		return l.setPort(ctx, i, "down")
	}
	return l.setPort(ctx, i, "up")
}

// Lose drops every packet from and to a machine, while its cable stays in, or none.
func (l *Net) Lose(ctx context.Context, i int, all bool) error {
	if all {
		return l.setPort(ctx, i, "nomaster")
	}
	return l.setPort(ctx, i, "master bridge")
}

// setPort changes the end of a machine's cable at the bridge.
func (l *Net) setPort(ctx context.Context, i int, what string) error {
	return run(ctx, "ip -n "+l.hub()+" link set "+port(i)+" "+what)
}

func port(i int) string { return "port" + strconv.Itoa(i) }

// removeNamespaces removes the namespaces that which picks, and joins all errors.
func removeNamespaces(ctx context.Context, which func(name string) bool) error {
	out, err := exec.CommandContext(ctx, "ip", "netns", "list").Output()
	if err != nil {
		return fmt.Errorf("ip netns list: %w", err)
	}
	var errs []error
	for line := range strings.SplitSeq(string(out), "\n") {
		if name, _, _ := strings.Cut(line, " "); name != "" && which(name) {
			errs = append(errs, run(ctx, "ip netns del "+name))
		}
	}
	return errors.Join(errs...)
}

// run runs commands in order, up to the first that fails, whose error has its standard error.
func run(ctx context.Context, commands ...string) error {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	for _, c := range commands {
		words := strings.Fields(c)
		if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
			return agentbox.Errorf(agentbox.Missing, "%s: %w: %.200s", c, err, strings.TrimSpace(string(out))).
				WithHint("iproute2 has ip and tc; the kernel needs veth, bridge and tbf")
		}
	}
	return nil
}
