package serving

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/place"
	"agentbox/vmm/guest/protocol"
)

// servicesWait is how long `up` waits for the services of a box before it runs the user's command
// anyway: a service that hangs must not lock its user out.
const servicesWait = 30 * time.Second

// servicesPoll is how often the guest is asked. It does not notify.
const servicesPoll = 100 * time.Millisecond

// Await returns when every service of a box is ready or one has failed, or after servicesWait, and
// reports those that are not ready. That is no error, because the command may be what repairs them.
// status asks the box and its guest.
func Await(ctx context.Context, box string, services []protocol.Service, status func(context.Context) (place.Status, error), progress agentbox.Progress) error {
	if len(services) == 0 {
		return nil
	}
	end := progress.Begin("services", names(services))
	deadline := time.Now().Add(servicesWait)
	for {
		st, err := status(ctx)
		if err != nil {
			return err
		}
		known := statesOf(services, st.Services)
		if waitingIsUseless(known) || time.Now().After(deadline) {
			reportServices(box, known, progress)
			end(countReady(known))
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

// statesOf is what is known of each service. A guest that did not answer, or not yet has its services,
// tells of none: those wait.
func statesOf(services []protocol.Service, told []agentbox.Service) []agentbox.Service {
	var out []agentbox.Service
	for _, s := range services {
		i := slices.IndexFunc(told, func(t agentbox.Service) bool { return t.Name == s.Name })
		if i < 0 {
			out = append(out, agentbox.Service{Name: s.Name, State: protocol.ServiceWaiting})
			continue
		}
		out = append(out, told[i])
	}
	return out
}

// waitingIsUseless tells whether waiting longer is useless: a failed service is not restarted soon.
func waitingIsUseless(services []agentbox.Service) bool {
	for _, s := range services {
		if s.State == protocol.ServiceFailed {
			return true // later ones wait for it
		}
		if s.State != protocol.ServiceReady {
			return false
		}
	}
	return true
}

// reportServices reports each service that is not ready, and how to see its log.
func reportServices(name string, services []agentbox.Service, progress agentbox.Progress) {
	for _, s := range services {
		if s.State == protocol.ServiceReady {
			continue
		}
		line := fmt.Sprintf("service %s is not ready (%s)", s.Name, s.State)
		if s.Error != "" {
			line = fmt.Sprintf("service %s is not ready (%s: %s)", s.Name, s.State, s.Error)
		}
		progress.Note(line + ": agentbox logs " + name + " " + s.Name)
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
