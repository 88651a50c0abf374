// Package serving waits for the services of boxes that run, and forwards their ports. It starts
// nothing in a box: services are started by the guest agent, when the box gets its configuration,
// and ports are forwarded by the supervisor.
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
)

// Machine is the supervisor of a box that runs (supervisors.Supervisor).
type Machine interface {
	Status(ctx context.Context, req api.StatusRequest) (api.SupervisorStatus, error)
	// Forward opens configured ports.
	Forward(ctx context.Context, ports []agentbox.ConfiguredPort) error
	OpenPort(ctx context.Context, req api.PortRequest) (agentbox.Port, error)
	ClosePort(ctx context.Context, req api.PortRequest) error
}

// Ports are those of the boxes that a reference names.
type Ports struct {
	// Wake makes sure that a box runs; Find gives its machine if it does. Either fails where there
	// is none.
	Wake func(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (Machine, error)
	Find func(ctx context.Context, ref api.BoxRef) (Machine, error)
}

// Open forwards a port of a box to the host's loopback. The box is woken for it. The answer says
// where on the loopback it answers.
func (p Ports) Open(ctx context.Context, req api.PortRequest, progress agentbox.Progress) (agentbox.Port, error) {
	m, err := p.Wake(ctx, req.BoxRef, progress)
	if err != nil {
		return agentbox.Port{}, err
	}
	return m.OpenPort(ctx, req)
}

// Close ends a forwarding. It does not wake the box: without a machine nothing is forwarded.
func (p Ports) Close(ctx context.Context, req api.PortRequest, _ agentbox.Progress) (api.None, error) {
	m, err := p.Find(ctx, req.BoxRef)
	if err != nil {
		return api.None{}, err
	}
	return api.None{}, m.ClosePort(ctx, req)
}

// Reopen forwards again what the configuration forwards, and says what moved: forwarded ports end
// with the supervisor.
func Reopen(ctx context.Context, m Machine, ports []agentbox.ConfiguredPort, progress agentbox.Progress) error {
	if len(ports) == 0 {
		return nil
	}
	if err := m.Forward(ctx, ports); err != nil {
		return err
	}
	TellMoved(ctx, m, ports, progress)
	return nil
}

// TellMoved says which configured ports answer elsewhere, because somebody else has them on this
// host.
func TellMoved(ctx context.Context, m Machine, ports []agentbox.ConfiguredPort, progress agentbox.Progress) {
	if len(ports) == 0 {
		return
	}
	st, err := m.Status(ctx, api.StatusRequest{})
	if err != nil {
		return // the next use of the box says that it does not answer
	}
	for _, line := range movedPorts(ports, st.Ports) {
		progress.Say(line)
	}
}

// movedPorts has a line for each configured port that answers at another address than the one that
// was asked for, with why.
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
