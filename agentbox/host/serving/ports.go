// Package serving waits for the services of running boxes and forwards their ports. It starts
// neither: the guest agent starts services, and the supervisor forwards ports.
package serving

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host/consent"
	"agentbox/agentbox/place"
)

// Machine is the supervisor of a running box (supervisors.Supervisor).
type Machine interface {
	Status(ctx context.Context, req place.Question) (place.Status, error)
	// Forward opens configured ports.
	Forward(ctx context.Context, ports []agentbox.ConfiguredPort) error
	OpenPort(ctx context.Context, port, local int) (agentbox.Port, error)
	ClosePort(ctx context.Context, port int) error
}

// Ports forwards ports of boxes by reference.
type Ports struct {
	// EnsureRunning makes sure that a box runs; Find fails if it does not.
	EnsureRunning func(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (Machine, error)
	Find          func(ctx context.Context, ref api.BoxRef) (Machine, error)
}

// Open forwards a port of a box, which it wakes, to the host's loopback. The answer has the
// address.
func (p Ports) Open(ctx context.Context, req api.PortRequest, progress agentbox.Progress) (agentbox.Port, error) {
	m, err := p.EnsureRunning(ctx, req.BoxRef, progress)
	if err != nil {
		return agentbox.Port{}, err
	}
	return m.OpenPort(ctx, req.Port, req.Host)
}

// Close ends a forwarding. It does not wake the box, since without a machine nothing is forwarded.
func (p Ports) Close(ctx context.Context, req api.PortRequest, _ agentbox.Progress) (api.None, error) {
	m, err := p.Find(ctx, req.BoxRef)
	if err != nil {
		return api.None{}, err
	}
	return api.None{}, m.ClosePort(ctx, req.Port)
}

// Reopen forwards the configured ports again, since forwarding ends with the supervisor, and
// reports those that moved.
func Reopen(ctx context.Context, m Machine, ports []agentbox.ConfiguredPort, progress agentbox.Progress) error {
	if len(ports) == 0 {
		return nil
	}
	if err := m.Forward(ctx, ports); err != nil {
		return err
	}
	ReportMoved(ctx, m, ports, progress)
	return nil
}

// ReportMoved reports configured ports that are forwarded from another port, because theirs is
// taken on this host.
func ReportMoved(ctx context.Context, m Machine, ports []agentbox.ConfiguredPort, progress agentbox.Progress) {
	if len(ports) == 0 {
		return
	}
	st, err := m.Status(ctx, place.Question{})
	if err != nil {
		return // the next use of the box reports that
	}
	for _, line := range movedPorts(ports, st.Ports) {
		progress.Note(line)
	}
}

// movedPorts has a line for each configured port that has another address, with the reason.
func movedPorts(configured []agentbox.ConfiguredPort, open []agentbox.Port) []string {
	var lines []string
	for _, c := range configured {
		for _, p := range open {
			if _, port, err := net.SplitHostPort(p.Host); p.Box == c.Box && err == nil && port != strconv.Itoa(c.Host) {
				why := "is taken"
				if c.Host < consent.FirstUserPort && os.Geteuid() != 0 {
					why = "is not for users"
				}
				lines = append(lines, fmt.Sprintf("port %d of this machine %s: port %d of the box answers at %s", c.Host, why, c.Box, p.Host))
			}
		}
	}
	return lines
}
