package protocol

// ContainersDir has, by name, the root of each service that has one of its own. It is part of the
// box's image.
const ContainersDir = "/var/lib/agentbox/services"

// Container is how a service runs in a root of its own, with the programs of another image. It is no
// sandbox: network, processes and devices are the box's. Service.Env is its whole environment.
type Container struct {
	Argv   []string `json:"argv"`            // looked up there
	Ready  []string `json:"ready,omitempty"` // exit status 0 means ready
	User   string   `json:"user,omitempty"`  // name or number, with a group after a colon; "" is root
	Dir    string   `json:"dir,omitempty"`
	Mounts []Mount  `json:"mounts,omitempty"`
	Names  []string `json:"names"` // by which it is reached in the box
	// Completes: it is ready when it has ended well. One that ended well is not started again.
	Completes bool `json:"completes,omitempty"`
}

// Mount is a file or directory of the box that a container sees. From is made if it is missing; "" is
// a directory of its own.
type Mount struct {
	From     string `json:"from,omitempty"`
	To       string `json:"to"`
	ReadOnly bool   `json:"read_only,omitempty"`
}
