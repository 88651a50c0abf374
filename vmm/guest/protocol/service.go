package protocol

import "time"

// ServiceLogDir holds one <name>.log per service in the guest.
const ServiceLogDir = "/run/agentbox/log"

// Service is a long-running command of the box. It is the same from the configuration to the guest
// that runs it.
type Service struct {
	Name  string            `json:"name"`
	Run   string            `json:"run"`             // for sh -c, in WorkspaceDir, as the box's user
	Ready string            `json:"ready,omitempty"` // for sh -c; exit status 0 means ready
	Port  int               `json:"port,omitempty"`  // TCP port it serves, 0 for none; without Ready: ready when it accepts a connection
	Env   map[string]string `json:"env,omitempty"`   // added to the box's
	// Container is for a service of another image, instead of Run and Ready; nil for one of the box's.
	Container *Container `json:"container,omitempty"`
}

// ServiceState is how far a service has come.
type ServiceState string

// The states of a service.
const (
	ServiceWaiting  ServiceState = "waiting"  // for those before it
	ServiceStarting ServiceState = "starting" // it runs, and is not ready yet, or is about to be started again
	ServiceReady    ServiceState = "ready"
	ServiceFailed   ServiceState = "failed" // it ended or could not be started; it is tried again
	ServiceStopped  ServiceState = "stopped"
)

// ServiceStatus is a service as it is now.
type ServiceStatus struct {
	Name  string       `json:"name"`
	State ServiceState `json:"state"`
	// How often it was started again, since it was first.
	Restarts int       `json:"restarts"`
	Port     int       `json:"port,omitempty"` // as configured: the guest leaves it to the host
	Since    time.Time `json:"since"`          // of State, by the guest's clock
	// Why it failed, in one line; "" in other states.
	Error string `json:"error,omitempty"`
}
