package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/place/local/drivers"
	"agentbox/bench"
	"agentbox/vmm"
	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/qemu"
)

// qemuUser is a machine like that of a box, with the same QEMU, kernel, image, CPUs and memory, but
// its network card is on QEMU's own user network (slirp). It has no supervisor, gateway or policy.
// It is booted, as it has no template.
type qemuUser struct {
	machine vmm.Machine
	client  *guest.Client
	at      *netServer
}

// newQEMUUser boots the machine with the driver of boxes, with one argument changed. end kills it, and
// is nil when there is nothing to end.
func newQEMUUser(ctx context.Context, l *bench.Lab, box agentbox.Box, at *netServer) (_ netClient, end func() error, err error) {
	log := slog.New(slog.DiscardHandler)
	dir, err := drivers.NewKernels(l.User, log).Dir(ctx, "", l.Say)
	if err != nil {
		return nil, nil, err
	}
	state := filepath.Join(l.Dir, "qemu-user")
	if err := os.Mkdir(state, 0o700); err != nil {
		return nil, nil, err
	}
	driver := qemu.New(qemu.Config{
		StateDir: state, Accel: box.Accel, ModifyArgv: onUserNetwork, Log: log,
		Kernel: func(context.Context) (string, error) { return dir, nil },
	})
	m, err := driver.Boot(ctx, vmm.Spec{
		Name: "qemu-user", Dir: state, Image: filepath.Join(l.User.Images(), "images", box.Image.Hex(), "image.erofs"), Kernel: dir,
		CPUs: box.CPUs, Memory: box.Memory, Disk: box.Disk,
	})
	if err != nil {
		return nil, nil, err
	}
	c := &qemuUser{machine: m, at: at}
	if err := c.enter(ctx); err != nil {
		return nil, c.end, err
	}
	return c, c.end, nil
}

// onUserNetwork changes the other end of the network card in QEMU's command line. The guest has the
// same addresses in every machine. The gateway's address leads to this machine's loopback, as usual
// with QEMU. There is no IPv6, as in boxes.
func onUserNetwork(argv []string) []string {
	out := make([]string, 0, len(argv))
	for _, a := range argv {
		if strings.HasPrefix(a, "socket,id=net,") {
			a = fmt.Sprintf("user,id=net,ipv6=off,net=%s/24,host=%s,dns=198.18.0.3", protocol.NameBlock.Addr(), protocol.GatewayAddr)
		}
		out = append(out, a)
	}
	return out
}

// enter greets the guest as a supervisor does: with new keys, and attached as root, which the
// scripts run as.
func (c *qemuUser) enter(ctx context.Context) error {
	var err error
	if c.client, err = guest.Greet(ctx, c.machine, guest.NewHello("qemu-user")); err != nil {
		return err
	}
	return c.client.Attach(ctx, protocol.AttachRequest{User: "root"})
}

// end disconnects and kills the machine.
func (c *qemuUser) end() error {
	var errs []error
	if c.client != nil {
		if err := c.client.Close(); err != nil && !errors.Is(err, io.EOF) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, c.machine.Kill())...)
}

func (c *qemuUser) server() (string, int) { return protocol.GatewayAddr.String(), c.at.port() }

// perl runs a script in the guest, over the guest agent's SSH.
func (c *qemuUser) perl(ctx context.Context, script string, args ...string) ([]byte, error) {
	session, err := c.client.SSH().NewSession()
	if err != nil {
		return nil, err
	}
	defer session.Close()
	stop := context.AfterFunc(ctx, func() { session.Close() })
	defer stop()
	var out, errs bytes.Buffer
	session.Stdout, session.Stderr = &out, &errs
	if err := session.Run("perl -e '" + script + "' " + strings.Join(args, " ")); err != nil {
		return nil, fmt.Errorf("perl in QEMU's user network: %w: %s", err, bench.LastLine(errs.Bytes()))
	}
	return out.Bytes(), nil
}
