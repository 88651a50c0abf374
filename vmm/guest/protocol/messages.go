package protocol

import (
	"encoding/json"
	"time"
)

// Version is the protocol's version. A host only talks to agents of its own, so both sides must
// agree.
const Version = 3

// Hello begins a new life of the guest: after a boot, a restore, a resume or a fork. No user
// process runs until everything in the Hello has replaced what the life before had. The host may
// send the beginning of its SSH connection right after it; the guest's follows the Ready with the
// same token.
type Hello struct {
	Version   int       `json:"version"`
	Token     string    `json:"token"`      // unique for this life; echoed
	Entropy   []byte    `json:"entropy"`    // 64 bytes for the kernel's generator, which is reseeded at once
	Time      time.Time `json:"time"`       // the host's clock
	Hostname  string    `json:"hostname"`   //
	MachineID string    `json:"machine_id"` // 32 hex digits
	HostKey   []byte    `json:"host_key"`   // 32-byte P-256 key of the SSH host, made for this lease
	// An AttachRequest whose workspace has its content. The guest carries it out while SSH is set
	// up, and the login waits for it.
	Attach json.RawMessage `json:"attach,omitempty"`
}

// Ready answers a Hello as soon as the random numbers are this life's own. The guest must be killed
// if Error is not empty, or if it refuses the login. The login succeeds, without a key, when clock
// and identity are this life's too.
type Ready struct {
	Version int    `json:"version"`
	Token   string `json:"token"`
	Kernel  string `json:"kernel"` // uname -r
	// Why the life did not begin, in one line.
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
// life that begins from a template, in its Hello or later, and never after a resume or a fork.
type AttachRequest struct {
	Workspace bool   `json:"workspace"`          // mount the workspace slot at WorkspaceDir
	Hostname  string `json:"hostname,omitempty"` // replaces the Hello's, for machines restored before their box had a name
	Dir       string `json:"dir,omitempty"`      // default directory of commands; "" is WorkspaceDir
	// The user of commands; "" is the image's user with the id of the workspace.
	User      string            `json:"user,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Services  []Service         `json:"services,omitempty"` // in start order
	PIDs      int               `json:"pids,omitempty"`     // most processes of the user; 0 means the default
	Authority *Authority        `json:"authority,omitempty"`
	Files     []File            `json:"files,omitempty"` // written before anything runs
	Own       bool              `json:"own,omitempty"`   // this is a box, not a warm-up: run the programs of FirstStartDir
}

// File is a file that the host puts into the box, readable by everybody in it.
type File struct {
	Path    string `json:"path"` // absolute
	Content string `json:"content"`
}

// Files that most hosts put into a box, empty until then: apt's sources and settings.
const (
	AptSources  = "/etc/apt/sources.list.d/agentbox.sources"
	AptSettings = "/etc/apt/apt.conf.d/90agentbox"
)

// AuthorityFile is the File of every box's Authority, as all have the same subject. Thus a machine
// can be prepared for an authority before it has one.
const AuthorityFile = "5a5741c7.0"

// Authority is a certificate authority that everything in the box trusts, beside those of the
// image.
type Authority struct {
	// One certificate.
	PEM    string `json:"pem"`
	File   string `json:"file"`             // its name in OpenSSL's directory of certificates
	Others string `json:"others,omitempty"` // PEM of those that were added on the host
}

// NoSuchUser is in every error about a user that the image lacks. Errors of a guest are text, and a
// host can say what to do about this one.
const NoSuchUser = "the image has no such user"

// How many files a program of the box may open: without asking, and at most. Programs close all
// that could be open before they start others, by as many calls, and gVisor takes half a minute for
// a million of them. Root of the box may allow itself more (prlimit(1)).
const (
	DefaultFiles = 1024
	MaxFiles     = 16384
)

// WorkspaceDir is where the workspace is in every box.
const WorkspaceDir = "/workspace"

// ThawRequest carries the host's clock.
type ThawRequest struct {
	Time time.Time `json:"time"`
}

// GuestStats is what only the guest knows.
type GuestStats struct {
	MemoryTotal     int64 `json:"memory_total"`     // bytes
	MemoryAvailable int64 `json:"memory_available"` // bytes
	Processes       int   `json:"processes"`        // of the user and the services
	OOMKills        int   `json:"oom_kills"`        // since the box's life began
	ForkBombs       int   `json:"fork_bombs"`       // programs ended for filling the box with processes, since its life began
	WorkspaceFree   int64 `json:"workspace_free"`   // bytes
	RuntimeFree     int64 `json:"runtime_free"`     // bytes
}
