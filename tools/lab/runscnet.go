package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/bench"
)

// runscNet is a container of the embedded runsc with runsc's own network stack. A veth pair
// connects it to a network namespace that contains only the server. It shows gVisor without
// agentbox's gateway.
type runscNet struct {
	shop *bareTarget
	at   *netServer
	wire vethPair
}

// Addresses of the two ends. They are in namespaces of our own, so they cannot collide with another
// network.
const (
	wireServer = "198.18.0.1"
	wireGuest  = "198.18.0.2"
)

// newRunscNet makes the network, the server in it and the container. end removes what was made. It is
// returned with an error too, except when this user may not make a network.
func newRunscNet(ctx context.Context, l *bench.Lab, image agentbox.Digest) (_ netClient, end func() error, err error) {
	if os.Geteuid() != 0 {
		return nil, nil, errors.New("only root can make a network for it")
	}
	c := &runscNet{wire: newVethPair()}
	if err := errors.Join(sweepVethPairs(ctx), c.wire.make(ctx)); err != nil {
		return nil, c.end, err
	}
	listener, err := c.wire.listen()
	if err != nil {
		return nil, c.end, err
	}
	c.at = newNetServer(listener)
	work := filepath.Join(l.Dir, "runsc-net")
	if err := os.Mkdir(work, 0o755); err != nil {
		return nil, c.end, err
	}
	if c.shop, err = newBareTarget(l, bareID, image, work, c.wire.path(c.wire.guest), []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, option{}); err != nil {
		return nil, c.end, err
	}
	return c, c.end, c.shop.start(ctx)
}

// end removes everything that was made. It does not use the measurement's ctx, which may have
// ended.
func (c *runscNet) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), bench.KillAfter)
	defer cancel()
	var errs []error
	if c.shop != nil {
		errs = append(errs, c.shop.stop(ctx))
	}
	return errors.Join(append(errs, c.at.close(), c.wire.remove(ctx))...)
}

func (c *runscNet) server() (string, int) { return wireServer, c.at.port() }

func (c *runscNet) perl(ctx context.Context, script string, args ...string) ([]byte, error) {
	cmd := c.shop.command(ctx, append([]string{"exec", bareID, "perl", "-e", script}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("perl in a bare runsc: %w: %s", err, bench.LastLine(exit.Stderr))
	}
	return out, err
}

// vethPair is two network namespaces joined by a veth pair.
type vethPair struct{ guest, server string }

// vethPrefix begins the names of the namespaces; the pid of their process follows.
const vethPrefix = "ablab"

// newVethPair names the namespaces after this process.
func newVethPair() vethPair {
	of := vethPrefix + strconv.Itoa(os.Getpid())
	return vethPair{of + "-guest", of + "-server"}
}

// sweepVethPairs removes the namespaces of processes that were killed.
func sweepVethPairs(ctx context.Context) error {
	found, err := filepath.Glob(filepath.Join(namespaces, vethPrefix+"*-*"))
	errs := []error{err}
	for _, path := range found {
		name := filepath.Base(path)
		of, _, _ := strings.Cut(strings.TrimPrefix(name, vethPrefix), "-")
		if pid, err := strconv.Atoi(of); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			errs = append(errs, ip(ctx, "netns del "+name))
		}
	}
	return errors.Join(errs...)
}

// namespaces is where iproute2 keeps their files.
const namespaces = "/run/netns"

// path returns the file of a namespace.
func (w vethPair) path(namespace string) string { return filepath.Join(namespaces, namespace) }

// make makes the namespaces and the veth pair.
func (w vethPair) make(ctx context.Context) error {
	for _, line := range []string{
		"netns add " + w.guest,
		"netns add " + w.server,
		"-n " + w.server + " link add server type veth peer name eth0 netns " + w.guest,
		"-n " + w.server + " addr add " + wireServer + "/30 dev server",
		"-n " + w.guest + " addr add " + wireGuest + "/30 dev eth0",
		"-n " + w.server + " link set server up",
		"-n " + w.guest + " link set lo up",
		"-n " + w.guest + " link set eth0 up",
		"-n " + w.guest + " route add default via " + wireServer,
	} {
		if err := ip(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the namespaces that exist, and the veth pair with them.
func (w vethPair) remove(ctx context.Context) error {
	var errs []error
	for _, namespace := range []string{w.guest, w.server} {
		if _, err := os.Stat(w.path(namespace)); err == nil {
			errs = append(errs, ip(ctx, "netns del "+namespace))
		}
	}
	return errors.Join(errs...)
}

// ip runs ip(8) with the words of a line.
func ip(ctx context.Context, line string) error {
	out, err := exec.CommandContext(ctx, "ip", strings.Fields(line)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", line, err, bench.LastLine(out))
	}
	return nil
}

// listen makes a listener in the server's namespace. The thread that enters the namespace is
// sacrificed.
func (w vethPair) listen() (net.Listener, error) {
	type made struct {
		net.Listener
		error
	}
	result := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		l, err := w.listenThere()
		result <- made{l, err}
	}()
	got := <-result
	return got.Listener, got.error
}

// listenThere moves the calling thread into the server's namespace for good.
func (w vethPair) listenThere() (net.Listener, error) {
	f, err := os.Open(w.path(w.server))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, os.NewSyscallError("setns", err)
	}
	return net.Listen("tcp4", wireServer+":0")
}
