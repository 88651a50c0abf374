package protocol

import (
	"encoding/json"
	"time"
)

// Version is the protocol's version. The host only ever talks to agents it carries itself, so both
// sides must agree.
const Version = 2

// Hello begins a new life of the guest: after a boot, a restore, a resume or a fork. No user
// process of the guest runs until everything the Hello brings has taken the place of what the life
// before had. The host may send the beginning of its SSH connection right behind it; the guest's
// follows the Ready with the same token.
type Hello struct {
	Version   int       `json:"version"`
	Token     string    `json:"token"`      // unique for this life; echoed
	Entropy   []byte    `json:"entropy"`    // 64 bytes for the kernel's generator, which is reseeded at once
	Time      time.Time `json:"time"`       // the host's clock
	Hostname  string    `json:"hostname"`   //
	MachineID string    `json:"machine_id"` // 32 hex digits
	HostKey   []byte    `json:"host_key"`   // 32-byte ed25519 seed of the SSH host key, minted for this lease
	// Attach is an AttachRequest with a workspace that has its content: the guest does it while SSH
	// is set up, and the login waits for it.
	Attach json.RawMessage `json:"attach,omitempty"`
}

// Ready answers a Hello when the random numbers are this life's own. A non-empty Error means that
// the guest must be killed; so does a refused login, which succeeds, without a key, when the clock
// and the identity are this life's too.
type Ready struct {
	Version int    `json:"version"`
	Token   string `json:"token"`
	Kernel  string `json:"kernel"` // uname -r
	// Why there is no life, in one line.
	Error string `json:"error,omitempty"`
}

// Names of the SSH global requests the agent answers. Payload and reply are JSON; a failed
// request's reply is a Failure.
const (
	Attach   = "attach@agentbox"   // AttachRequest -> {}
	Detach   = "detach@agentbox"   // {} -> {}: end every user process and service, sync, unmount the workspace
	Quiesce  = "quiesce@agentbox"  // {} -> {}: be ready to become a template; the next bytes on the stream are a Hello
	Freeze   = "freeze@agentbox"   // {} -> {}: stop user processes, sync; a Thaw or a Hello lets them go on
	Thaw     = "thaw@agentbox"     // ThawRequest -> {}
	Clock    = "clock@agentbox"    // ThawRequest -> {}: step the clock when it is off
	Services = "services@agentbox" // {} -> []ServiceStatus
	Stats    = "stats@agentbox"    // {} -> GuestStats
)

// Failure is the reply of a request that failed.
type Failure struct {
	Error string `json:"error"`
}

// AttachRequest gives the guest its workspace and the configuration of the box. It is sent once per
// life that begins from a template, in its Hello or after it, never after a resume or a fork.
type AttachRequest struct {
	Workspace bool   `json:"workspace"`          // mount the workspace slot at WorkspaceDir
	Hostname  string `json:"hostname,omitempty"` // replaces the Hello's, for machines restored before their box had a name
	Dir       string `json:"dir,omitempty"`      // where commands start when they do not say; default WorkspaceDir
	// The account that commands run as; "" is the image's user with the id of the workspace.
	User      string            `json:"user,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Services  []Service         `json:"services,omitempty"` // in start order
	PIDs      int               `json:"pids,omitempty"`     // most processes of the user; 0 means the default
	Authority *Authority        `json:"authority,omitempty"`
	Files     []File            `json:"files,omitempty"` // written before anything runs
	Own       bool              `json:"own,omitempty"`   // this is a box, not a warm-up: make what each has its own of (FirstStartDir)
}

// File is a file that the box has from its host, readable by everybody in it.
type File struct {
	Path    string `json:"path"` // absolute
	Content string `json:"content"`
}

// Files that a box has from most hosts, and those that say nothing until then: apt's, where its
// packages are and how they are reached.
const (
	AptSources  = "/etc/apt/sources.list.d/agentbox.sources"
	AptSettings = "/etc/apt/apt.conf.d/90agentbox"
)

// AuthorityFile is the File of every box's Authority, as long as all have one subject. A machine
// can be prepared for an authority under this name before it has one.
const AuthorityFile = "5a5741c7.0"

// Authority is a certificate authority that everything in the box is to believe, beside those of
// the image.
type Authority struct {
	// One certificate.
	PEM    string `json:"pem"`
	File   string `json:"file"`             // its name in a directory of certificates, as OpenSSL looks for it
	Others string `json:"others,omitempty"` // PEM of those that the host was taught beside its distribution's
}

// WorkspaceDir is where the workspace is in every box.
const WorkspaceDir = "/workspace"

// ThawRequest carries the host's clock.
type ThawRequest struct {
	Time time.Time `json:"time"`
}

// GuestStats is what only the guest can tell.
type GuestStats struct {
	MemoryTotal     int64 `json:"memory_total"`     // bytes
	MemoryAvailable int64 `json:"memory_available"` // bytes
	Processes       int   `json:"processes"`        // of the user and the services
	OOMKills        int   `json:"oom_kills"`        // since the box's life began
	ForkBombs       int   `json:"fork_bombs"`       // programs ended for filling the box with processes, since its life began
	WorkspaceFree   int64 `json:"workspace_free"`   // bytes
	RuntimeFree     int64 `json:"runtime_free"`     // bytes
}
