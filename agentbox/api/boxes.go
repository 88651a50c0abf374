package api

import (
	"encoding/json"
	"time"

	"agentbox/agentbox"
)

// The calls about boxes. In all requests that name a box, Box is an ID, a unique prefix of one, a
// name, or "" for the box of the branch checked out in Directory.
var (
	// Up creates or finds a box and makes sure that it runs. A failed command leaves it there.
	Up = Endpoint[UpRequest, UpResponse]{"/v1/box/up"}
	// PlanUp returns what Up would do, and does nothing.
	PlanUp = Endpoint[UpRequest, UpPlan]{"/v1/box/up/plan"}
	// ListBoxes returns all boxes, oldest first. Progress reports those that cannot be shown.
	ListBoxes = Endpoint[ListRequest, []agentbox.Box]{"/v1/box/list"}
	// ShowBox returns one box with its usage. It asks the guest, for a limited time.
	ShowBox = Endpoint[BoxRef, agentbox.Box]{"/v1/box/show"}
	// Connect makes sure that a box runs, renews its lease, and returns how to connect to it.
	Connect = Endpoint[BoxRef, Connection]{"/v1/box/connect"}
	// Pause saves a box's machine to disk and ends it. It is Conflict for a stopped box.
	Pause = Endpoint[BoxRef, agentbox.Box]{"/v1/box/pause"}
	// Resume continues a paused box, starts a stopped one, and does nothing to a running one.
	Resume = Endpoint[BoxRef, agentbox.Box]{"/v1/box/resume"}
	// Fork copies a box with its memory and workspace. After a failure no copy is left.
	Fork = Endpoint[ForkRequest, agentbox.Box]{"/v1/box/fork"}
	// Checkpoint saves a box. It stands still meanwhile, and then goes on.
	Checkpoint = Endpoint[CheckpointRequest, agentbox.Checkpoint]{"/v1/box/checkpoint"}
	// Rollback loses everything since the checkpoint, which stays.
	Rollback = Endpoint[RollbackRequest, agentbox.Box]{"/v1/box/rollback"}
	// Reset replaces the machine by a new one. The workspace stays.
	Reset = Endpoint[BoxRef, agentbox.Box]{"/v1/box/reset"}
	// Remove removes a box with its workspace and checkpoints, even if work is lost (see Unsaved).
	Remove = Endpoint[BoxRef, agentbox.Box]{"/v1/box/remove"}
	// Forget removes what is here of a box on another machine, which is not asked: all that is there
	// stays. Invalid for any other box.
	Forget = Endpoint[BoxRef, agentbox.Box]{"/v1/box/forget"}
	// OpenPort wakes the box and returns the address on the host.
	OpenPort = Endpoint[PortRequest, agentbox.Port]{"/v1/box/port/open"}
	// ClosePort does not wake the box.
	ClosePort = Endpoint[PortRequest, None]{"/v1/box/port/close"}
	// BoxSSH leads to the SSH server of a running box. It does not wake the box.
	BoxSSH = Tunnel[BoxRef]{"/v1/box/ssh"}
	// Label changes what programs wrote on a box, without waking it.
	Label = Endpoint[LabelRequest, agentbox.Box]{"/v1/box/label"}
	// Bind changes the bound of a box, without waking it: a running machine follows at once.
	Bind = Endpoint[BindRequest, agentbox.Box]{"/v1/box/bind"}
	// BoxLog does not wake the box.
	BoxLog = Download[BoxLogRequest]{"/v1/box/log"}
)

// BoxRef names a box.
type BoxRef struct {
	Box       string `json:"box,omitempty"`
	Directory string `json:"directory,omitempty"`
}

// UpRequest creates or finds the box of a directory. Absent fields are left to the repository's
// configuration.
type UpRequest struct {
	Directory string `json:"directory"`
	// Source is what a new box is made from, and whose configuration counts, instead of Directory's.
	Source    *agentbox.SourceRef `json:"source,omitempty"`
	Name      string              `json:"name,omitempty"`
	Image     string              `json:"image,omitempty"`     // overrides the configuration's
	Isolation agentbox.Isolation  `json:"isolation,omitempty"` // overrides the configuration's
	CPUs      int                 `json:"cpus,omitempty"`
	Memory    string              `json:"memory,omitempty"` // such as 2GiB
	// Devcontainer names the .devcontainer/NAME/devcontainer.json that is the configuration.
	Devcontainer string `json:"devcontainer,omitempty"`
	// Agent names an agent whose program and its requirements the box contains.
	Agent string `json:"agent,omitempty"`
	// Environ is the caller's environment as NAME=VALUE. The configuration's includes may name its
	// variables, and AGENTBOX_ISOLATION decides what auto means. Only variables that the
	// configuration or secrets name are kept.
	Environ []string `json:"environ,omitempty"`
	// Task asks for a new box that no directory leads to. Its caller removes it, and a limit ends
	// its machine instead of pausing it.
	Task bool `json:"task,omitempty"`
	// Command means that a command or a shell follows, so the caller's directory must exist in the
	// box, and up waits for its services.
	Command bool `json:"command,omitempty"`
	// Cold makes the machine boot if its kind is restored from a template otherwise, to measure or
	// debug. It lasts until the box is reset.
	Cold bool `json:"cold,omitempty"`

	// Env has variables of all commands of a new box, beside the configuration's.
	Env map[string]string `json:"env,omitempty"`
	// Labels are written on a new box.
	Labels map[string]string `json:"labels,omitempty"`
	// Pins are what a new box is made of, instead of what its configuration leads to.
	Pins *Pins `json:"pins,omitempty"`
	// Entered is what a new box is of, if that is on another machine.
	Entered *Entered `json:"entered,omitempty"`

	// Bound is a policy file that bounds what a new box may reach, as an organisation's does: it allows
	// nothing, and what it does not allow is denied.
	Bound string `json:"bound,omitempty"`

	// Foreign means that the box is for another machine's user: it gets no secrets but what that one lends
	// (Loan, a policy.Loan), and nothing that was approved or allowed for this machine's own user.
	Foreign bool            `json:"foreign,omitempty"`
	Loan    json.RawMessage `json:"loan,omitempty"`
	// TaskLimits override those of the configuration. They apply to a Task only.
	TaskLimits agentbox.TaskLimits `json:"task_limits"`
}

// Pins name what is on this machine, or what the team offers: an image that has tools and what setup
// made, the key and the manifest of that result. Both are zero if setup is to run in the box.
type Pins struct {
	Image  agentbox.Digest `json:"image"`
	Key    agentbox.Digest `json:"key,omitzero"`
	Result agentbox.Digest `json:"result,omitzero"`
}

// UpResponse is the box and how to connect to it.
type UpResponse struct {
	Box        agentbox.Box `json:"box"`
	Created    bool         `json:"created"`
	Connection Connection   `json:"connection"`
}

// UpPlan is what up would do now. Computing it changes nothing.
type UpPlan struct {
	Box       string             `json:"box,omitempty"` // if it exists already
	Isolation agentbox.Isolation `json:"isolation"`
	Reason    string             `json:"reason,omitempty"` // why this isolation
	// Alternatives are stronger or faster kinds. Lacks is what this kind has not for the repository.
	Alternatives []agentbox.Alternative `json:"alternatives,omitempty"`
	Lacks        []agentbox.Lack        `json:"lacks,omitempty"`
	Steps        []UpStep               `json:"steps"` // in order
}

// UpStep is one step of up. How is one of the words below. For UpEnsureRunning it is the state of
// the box; for a step that can be done in only one way it is "".
type UpStep struct {
	Action UpAction `json:"action"`
	How    string   `json:"how,omitempty"`
}

// UpAction is what a step does.
type UpAction string

// The steps of up.
const (
	UpApproval UpAction = "approval" // report what waits for approval; UpPartial or UpStop
	UpImage    UpAction = "image"    // fetch or build it; UpPresent or UpMissing
	UpAccount  UpAction = "account"  // instead of the steps up to UpTemplate: another machine's has none of that
	UpKernel   UpAction = "kernel"   // fetch the guest's
	// UpTools: layer the tools that the repository's files ask for on the image; UpPresent or
	// UpMissing.
	UpTools         UpAction = "tools"
	UpSetup         UpAction = "setup"          // layer the setup result on it; UpPresent or UpMissing
	UpTemplate      UpAction = "template"       // open or make it, for a kind with templates
	UpBox           UpAction = "box"            // make the machine and the workspace; UpRestore or UpBoot
	UpChanges       UpAction = "changes"        // report what a reset would change
	UpPolicy        UpAction = "policy"         // apply the policy that is approved now
	UpEnsureRunning UpAction = "ensure_running" // make sure that the box runs; How is its state now
	UpAgent         UpAction = "agent"          // install the agent's program
	UpRunSetup      UpAction = "run_setup"      // in the box; UpIfFailed: only if it failed in a clean box
	UpRunStart      UpAction = "run_start"
	UpRecall        UpAction = "recall"   // give the agent its saved memory
	UpServices      UpAction = "services" // wait until they are ready
)

// The ways of doing a step.
const (
	UpPresent  = "present"
	UpMissing  = "missing" // so up makes or fetches it
	UpPartial  = "partial" // what needs no approval proceeds
	UpStop     = "stop"    // nothing is made before it is approved
	UpIfFailed = "if_failed"
	UpRestore  = "restore"
	UpBoot     = "boot"
)

// Connection says how to log in to a box, whose SSH server BoxSSH leads to. It stays valid until the
// box starts again. Key grants all rights in the box.
type Connection struct {
	Box     agentbox.BoxID `json:"box"`
	Name    string         `json:"name"`
	Key     string         `json:"key"`      // the private key that may log in, in PEM
	HostKey string         `json:"host_key"` // a line of known_hosts
	User    string         `json:"user"`
	// Dir is where commands start, a path in the box: the workspace, or the subdirectory of it that
	// corresponds to the caller's.
	Dir string            `json:"dir"`
	Env map[string]string `json:"env,omitempty"`
	// ServiceLog is a directory in the box, with SERVICE.log for each service.
	ServiceLog string `json:"service_log"`
}

// LogRequest asks for a log as it is and, with Follow, for what is written to it from then on.
type LogRequest struct {
	Follow bool `json:"follow,omitempty"`
	Lines  *int `json:"lines,omitempty"` // only the last ones, and what follows; nil for all
}

// Last is Lines as package environment has it: all of them is a negative number.
func (l LogRequest) Last() int {
	if l.Lines == nil {
		return -1
	}
	return *l.Lines
}

// BoxLogRequest asks for a log about a box, which the host keeps.
type BoxLogRequest struct {
	BoxRef
	LogRequest
	// Supervisor asks for the log of the box's supervisor, instead of the console of its present or
	// last machine.
	Supervisor bool `json:"supervisor,omitempty"`
}

// ListRequest selects boxes: those with all these Labels, or all.
type ListRequest struct {
	ID     string            `json:"id,omitempty"` // only the box with this whole ID
	Labels map[string]string `json:"labels,omitempty"`
	Usage  bool              `json:"usage,omitempty"` // measure each box; some milliseconds per box
	// Known asks no box: none has a lease's end, ports or services then.
	Known bool `json:"known,omitempty"`
}

// ForkRequest copies a box, including its running processes. The original goes on. If Name is "",
// one is derived from the original's name.
type ForkRequest struct {
	BoxRef
	Name string `json:"name,omitempty"`
	// Labels change those that the copy has from the original, as in LabelRequest.
	Labels map[string]string `json:"labels,omitempty"`
}

// LabelRequest sets labels of a box, and removes those that are to be "". Others stay. A box has at
// most MaxLabels, with MaxLabel bytes each.
type LabelRequest struct {
	BoxRef
	Labels map[string]string `json:"labels"`
}

// BindRequest replaces what a program bounds a box to, as in UpRequest; "" leaves what the box's policy
// allows.
type BindRequest struct {
	BoxRef
	Bound string `json:"bound"`
}

// Bounds of the labels of a box.
const MaxLabels, MaxLabel = 64, 8 << 10

// CheckpointRequest saves the state of a box, to roll back to. Name is optional and unique among
// the box's checkpoints.
type CheckpointRequest struct {
	BoxRef
	Name string `json:"name,omitempty"`
}

// RollbackRequest returns a box to a checkpoint. Checkpoint is an ID, a unique prefix, a name, or
// "" for the latest.
type RollbackRequest struct {
	BoxRef
	Checkpoint string `json:"checkpoint,omitempty"`
}

// PortRequest forwards a TCP port of the box to the host's loopback.
type PortRequest struct {
	BoxRef
	Port int `json:"port"`
	Host int `json:"host,omitempty"` // 0: the same port if it is free, else any
}

// The calls about the host.
var (
	// Status answers from memory, so it is quick.
	Status = Endpoint[None, DaemonStatus]{"/v1/status"}
	// Shutdown makes the daemon stop after the calls in progress. Boxes go on.
	Shutdown = Endpoint[None, None]{"/v1/shutdown"}
	// Changes writes a line at once, and then each time that boxes or tasks may have changed.
	Changes = Download[None]{"/v1/changes"}
	// DaemonLog returns the daemon's own log.
	DaemonLog = Download[LogRequest]{"/v1/daemon/log"}
	// Prune removes what is no longer needed.
	Prune = Endpoint[PruneRequest, PruneResponse]{"/v1/prune"}
	// Doctor checks the host.
	Doctor = Endpoint[DoctorRequest, DoctorReport]{"/v1/doctor"}
)

// ExitDaemonRuns is the exit code of a daemon that finds another one in its home. It differs from
// that of a daemon that fails.
const ExitDaemonRuns = 3

// DaemonStatus describes the running daemon.
type DaemonStatus struct {
	Version string    `json:"version"` // build of the running binary
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Home    string    `json:"home"`
	Boxes   int       `json:"boxes"`
	Pool    int       `json:"pool"` // machines restored ahead of need
}

// PruneRequest removes what is no longer needed. With DryRun it only reports what that would be.
type PruneRequest struct {
	DryRun bool `json:"dry_run"`
	// Boxes also removes boxes whose checkout or branch is gone, including work in them that may
	// exist nowhere else.
	Boxes bool `json:"boxes,omitempty"`
}

// PruneResponse lists what was removed, or would be.
type PruneResponse struct {
	Items []PruneItem `json:"items"`
}

// PruneItem is one removable object. Bytes is the disk space that it takes.
type PruneItem struct {
	Kind   string `json:"kind"` // template, image, kernel, box, audit, source, task
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"`
}

// DoctorRequest asks for a diagnosis. Probe discards earlier findings about the host first.
type DoctorRequest struct {
	Probe bool `json:"probe,omitempty"`
	// Isolation is what auto means to the caller, or "" if nothing specifies it.
	Isolation agentbox.Isolation `json:"isolation,omitempty"`
}

// DoctorReport is a list of checks.
type DoctorReport struct {
	Checks []Check `json:"checks"`
	// Kinds are the kinds of isolation that work here. The first is the one that a new box gets.
	Kinds []agentbox.Isolation `json:"kinds"`
	// Emulated tells that QEMU runs guests here, but not by hardware virtualization: there is none, or a
	// guest that was tried did not run.
	Emulated bool `json:"emulated,omitempty"`
}

// Check is one line of a diagnosis. Detail is what was found, good or bad. Hint says what to do
// about a check that failed.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// The calls about images.
var (
	// BuildImage builds the image of a directory's configuration.
	BuildImage = Endpoint[ImageBuildRequest, Image]{"/v1/image/build"}
	// PullImage makes an image from a source, without a repository or a pin.
	PullImage = Endpoint[ImagePullRequest, Image]{"/v1/image/pull"}
	// ListImages returns all images on this host.
	ListImages = Endpoint[None, []Image]{"/v1/image/list"}
	// ShowImage returns an image with the origin of its bytes.
	ShowImage = Endpoint[ImageRef, ImageDetail]{"/v1/image/show"}
	// RemoveImage removes an image, even a damaged one. It fails if a box uses the image.
	RemoveImage = Endpoint[ImageRef, Image]{"/v1/image/remove"}
	// FetchImage fetches an image or, if Lazy, only its description.
	FetchImage = Endpoint[ImageFetchRequest, Image]{"/v1/image/fetch"}
	// ExportImage writes an image to a directory, completing it first.
	ExportImage = Endpoint[ImageExportRequest, Image]{"/v1/image/export"}
	// NeedImage returns when a missing block is here. Supervisors call it for their machines.
	NeedImage = Endpoint[ImageNeed, agentbox.Blocks]{"/v1/image/need"}
)

// ImageFetchRequest fetches an image from a directory or URL that ExportImage filled.
type ImageFetchRequest struct {
	From string `json:"from"` // an absolute path, or a URL
	// Image is a digest, a prefix of one, or a name. It may be "" if there is only one image.
	Image string `json:"image,omitempty"`
	// Lazy fetches what a box needs when it needs it, and the rest when the box is idle.
	Lazy bool `json:"lazy,omitempty"`
}

// ImageExportRequest writes an image into a directory, from which others can fetch it.
type ImageExportRequest struct {
	Image string `json:"image"`
	// Directory is the root of a checkout or any directory below it.
	Directory string `json:"directory"` // absolute
}

// ImageNeed asks for a block of an image that is not complete here. The answer comes when the block
// does. The caller sets no timeout, because a machine cannot be told that its disk is late. The
// call ends with the connection.
type ImageNeed struct {
	Box   agentbox.BoxID  `json:"box"` // the box that waits for it
	Image agentbox.Digest `json:"image"`
	Block int             `json:"block"`
}

// ImageBuildRequest builds the image of a directory's configuration.
type ImageBuildRequest struct {
	Directory string `json:"directory"`
	// Source is meant instead of Directory, which is on another machine. It gets no pin.
	Source *agentbox.SourceRef `json:"source,omitempty"`
	// Environ is the same as in UpRequest.
	Environ []string `json:"environ,omitempty"`
	Update  bool     `json:"update,omitempty"` // replace the pin in agentbox.lock
}

// ImagePullRequest fetches an image: an OCI reference, oci:DIR, docker-archive:FILE or apt:SUITE.
type ImagePullRequest struct {
	Source string `json:"source"`
}

// ImageRef names an image by digest, unique prefix or name.
type ImageRef struct {
	Image string `json:"image"`
}

// ImageDetail is an image and the origin of all its bytes. Received, Made, Local and Missing add up
// to its size, unless damaged blocks were fetched twice.
type ImageDetail struct {
	Image
	// Maker is the PeerID of the member that made the image, or "" for this machine.
	Maker     string `json:"maker,omitempty"`
	MakerName string `json:"maker_name,omitempty"` // name of that member
	// BaseMakers has the PeerIDs of the members that made what the image was built on.
	BaseMakers []string        `json:"base_makers,omitempty"`
	Base       agentbox.Digest `json:"base,omitzero"`      // the image that included files were added to
	Manifest   string          `json:"manifest,omitempty"` // of an image from a registry, as resolved
	Received   []ImageReceived `json:"received"`           // largest first
	// Made counts the bytes that this machine wrote: built, or unpacked from a registry's layers.
	Made int64 `json:"made"`
	// Local counts the bytes that needed no transfer: empty blocks, and blocks that other images
	// here share.
	Local   int64 `json:"local"`
	Missing int64 `json:"missing"` // bytes that have not arrived yet
}

// ImageReceived says how many bytes of an image one sender sent. An entry with neither Peer nor
// Remote sums up the smallest senders beyond 64.
type ImageReceived struct {
	Peer   string `json:"peer,omitempty"` // PeerID
	Name   string `json:"name,omitempty"` // of the peer
	Remote string `json:"remote,omitempty"`
	Bytes  int64  `json:"bytes"`
}

// Image is a base image (layer 0) on this host, complete or still being fetched.
type Image struct {
	Digest  agentbox.Digest `json:"digest"`
	Name    string          `json:"name"`
	Source  string          `json:"source"`
	Size    int64           `json:"size"`
	Created time.Time       `json:"created"`
	UsedBy  []string        `json:"used_by,omitempty"` // boxes
	// From is where the missing bytes come from while the image is incomplete, else "".
	From    string `json:"from,omitempty"`
	Present int64  `json:"present,omitempty"` // bytes present while the image is incomplete
}
