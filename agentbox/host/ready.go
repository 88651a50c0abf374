package host

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host/consent"
	"agentbox/vmm/guest/protocol"
)

// servicesWait is how long `up` waits for the services of a box before it runs the user's command all the same.
const servicesWait = 30 * time.Second

// servicesPoll is how often it looks.
const servicesPoll = 100 * time.Millisecond

// awaitServices returns when every service of a box is ready or has failed, or servicesWait has passed, and says which
// are not ready. That is no error: the command may be what mends them.
func (m *Manager) awaitServices(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	if len(rec.Attach.Services) == 0 {
		return nil
	}
	end := progress.Begin("services", names(rec.Attach.Services))
	deadline := time.Now().Add(servicesWait)
	for {
		s := b.live()
		if s == nil {
			return whyGone(m.home, rec, notRunning(rec))
		}
		st, err := api.Call(ctx, s.Client, api.SupervisorStatusE, api.StatusRequest{Guest: true}, nil)
		if err != nil {
			return whyGone(m.home, rec, err)
		}
		if settled(st.Services) || time.Now().After(deadline) {
			tellServices(rec.Box.Name, st.Services, progress)
			end(countReady(st.Services))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(servicesPoll):
		}
	}
}

func names(services []protocol.Service) string {
	var out []string
	for _, s := range services {
		out = append(out, s.Name)
	}
	return strings.Join(out, ", ")
}

// settled tells whether waiting changes nothing more: one that has failed is started again, but not soon.
func settled(services []agentbox.Service) bool {
	for _, s := range services {
		if s.State == protocol.ServiceFailed {
			return true // those behind it in the order wait for it
		}
		if s.State != protocol.ServiceReady {
			return false
		}
	}
	return true
}

func tellServices(name string, services []agentbox.Service, progress agentbox.Progress) {
	for _, s := range services {
		if s.State == protocol.ServiceReady {
			continue
		}
		line := fmt.Sprintf("service %s is not ready (%s)", s.Name, s.State)
		if s.Error != "" {
			line = fmt.Sprintf("service %s is not ready (%s: %s)", s.Name, s.State, s.Error)
		}
		progress.Say(line + ": agentbox logs " + name + " " + s.Name)
	}
}

func countReady(services []agentbox.Service) string {
	ready := 0
	for _, s := range services {
		if s.State == protocol.ServiceReady {
			ready++
		}
	}
	return fmt.Sprintf("%d of %d ready", ready, len(services))
}

// tellPorts says which configured ports answer elsewhere, because somebody else has them on this host.
func (m *Manager) tellPorts(ctx context.Context, b *box, progress agentbox.Progress) {
	rec, s := b.record(), b.live()
	if len(rec.Attach.Ports) == 0 || s == nil {
		return
	}
	st, err := api.Call(ctx, s.Client, api.SupervisorStatusE, api.StatusRequest{}, nil)
	if err != nil {
		return // whoever uses the box learns that it does not answer
	}
	for _, line := range movedPorts(rec.Attach.Ports, st.Ports) {
		progress.Say(line)
	}
}

func movedPorts(configured []api.ConfiguredPort, open []agentbox.Port) []string {
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
