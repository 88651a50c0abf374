package api

import (
	"time"

	"agentbox/agentbox"
)

// The calls about boxes. Wherever a request names a box, Box is an id, a unique prefix of one, a
// name, or "" together with the Directory whose branch's box is meant.
var (
	Up         = Endpoint[UpRequest, UpResponse]{"/v1/box/up"}
	PlanUp     = Endpoint[UpRequest, UpPlan]{"/v1/box/up/plan"}
	ListBoxes  = Endpoint[ListRequest, []agentbox.Box]{"/v1/box/list"}
	ShowBox    = Endpoint[BoxRef, agentbox.Box]{"/v1/box/show"}
	Connect    = Endpoint[BoxRef, Connection]{"/v1/box/connect"}
	Pause      = Endpoint[BoxRef, agentbox.Box]{"/v1/box/pause"}
	Resume     = Endpoint[BoxRef, agentbox.Box]{"/v1/box/resume"}
	Fork       = Endpoint[ForkRequest, agentbox.Box]{"/v1/box/fork"}
	Checkpoint = Endpoint[CheckpointRequest, agentbox.Checkpoint]{"/v1/box/checkpoint"}
	Rollback   = Endpoint[RollbackRequest, agentbox.Box]{"/v1/box/rollback"}
	Reset      = Endpoint[BoxRef, agentbox.Box]{"/v1/box/reset"}
	Remove     = Endpoint[BoxRef, agentbox.Box]{"/v1/box/remove"}
	OpenPort   = Endpoint[PortRequest, agentbox.Port]{"/v1/box/port/open"}
	ClosePort  = Endpoint[PortRequest, None]{"/v1/box/port/close"}
)

// BoxRef names a box.
type BoxRef struct {
	Box       string `json:"box,omitempty"`
	Directory string `json:"directory,omitempty"`
}

// UpRequest creates the box of a directory, or finds it. What is absent is left to the
// configuration of the repository.
type UpRequest struct {
	Directory string             `json:"directory"`
	Name      string             `json:"name,omitempty"`
	Image     string             `json:"image,omitempty"`     // overrides the configuration's
	Isolation agentbox.Isolation `json:"isolation,omitempty"` // overrides the configuration's
	CPUs      int                `json:"cpus,omitempty"`
	Memory    string             `json:"memory,omitempty"` // as 2GiB
	// Agent names an agent, whose program the box has with what that needs.
	Agent string `json:"agent,omitempty"`
	// Environ is the caller's environment, NAME=VALUE each: includes may name its variables, and
	// AGENTBOX_ISOLATION says what auto means. Of it only variables that are named by the
	// configuration or by secrets are kept.
	Environ []string `json:"environ,omitempty"`
	// Task asks for a fresh box that nobody finds by its directory. Its caller removes it, and
	// limits end its machine in place of pausing it.
	Task bool `json:"task,omitempty"`
	// Command: a command or a shell follows, so the caller's directory must exist in the box, and
	// its services are waited for.
	Command bool `json:"command,omitempty"`
	// Cold: boot, do not restore a template (to measure, and to debug)
	Cold bool `json:"cold,omitempty"`

	// TaskLimits are over the configuration's, for a Task only.
	TaskLimits agentbox.TaskLimits `json:"task_limits"`
}

// UpResponse is the box and how to get in.
type UpResponse struct {
	Box        agentbox.Box `json:"box"`
	Created    bool         `json:"created"`
	Connection Connection   `json:"connection"`
}

// UpPlan is what up would do now. Nothing was done for it.
type UpPlan struct {
	Box       string             `json:"box,omitempty"` // that is there already
	Isolation agentbox.Isolation `json:"isolation"`
	Reason    string             `json:"reason,omitempty"` // of the isolation
	Steps     []UpStep           `json:"steps"`            // in order
}

// UpStep is one step of up. How is one of the words below, or for UpWake the state that the box is
// in; "" where there is one way only.
type UpStep struct {
	Do  UpAction `json:"do"`
	How string   `json:"how,omitempty"`
}

// UpAction is what a step does.
type UpAction string

// The steps of up.
const (
	UpApproval UpAction = "approval" // say what waits for approval; UpLater or UpStop
	UpImage    UpAction = "image"    // get it; UpHere or UpMissing
	UpKernel   UpAction = "kernel"   // get the guest's
	// UpTools: lay what the repository's files ask for over the image; UpHere or UpMissing.
	UpTools    UpAction = "tools"
	UpSetup    UpAction = "setup"     // lay what setup makes over it; UpHere or UpMissing
	UpTemplate UpAction = "template"  // open it; UpHere or UpMissing
	UpBox      UpAction = "box"       // make machine and workspace; UpRestore or UpBoot
	UpChanges  UpAction = "changes"   // say what a reset would change
	UpGovern   UpAction = "policy"    // put the box under what is approved now
	UpWake     UpAction = "wake"      // make sure that it runs, from the state that How is
	UpAgent    UpAction = "agent"     // install its program
	UpRunSetup UpAction = "run setup" // in the box; UpOnce: only if it failed in a clean one
	UpRunStart UpAction = "run start"
	UpRecall   UpAction = "recall"   // give the agent what it remembers
	UpServices UpAction = "services" // wait until they are ready
)

// How steps are done.
const (
	UpHere    = "here"
	UpMissing = "missing" // so it is made or got
	UpLater   = "later"   // what needs no approval goes on
	UpStop    = "stop"    // nothing is made before it is approved
	UpOnce    = "once"
	UpRestore = "restore"
	UpBoot    = "boot"
)

// Connection is how to reach the inside of a box: an SSH server on a unix socket of this machine.
// It stays valid for as long as the box exists, though the box has to run. Key gives all rights in
// the box.
type Connection struct {
	Box        agentbox.BoxID `json:"box"`
	Name       string         `json:"name"`
	Socket     string         `json:"socket"`
	Key        string         `json:"key"`         // file with the private key that may log in
	KnownHosts string         `json:"known_hosts"` // file with the box's host key, for stock ssh
	User       string         `json:"user"`
	// Dir is where commands start: the workspace, or the caller's subdirectory in it. A path in the
	// box.
	Dir     string            `json:"dir"`
	Env     map[string]string `json:"env,omitempty"`
	Console string            `json:"console"` // file with the machine's console
	Log     string            `json:"log"`     // file with the supervisor's log
	// ServiceLog is a directory in the box, with SERVICE.log for each service.
	ServiceLog string `json:"service_log"`
}

// ListRequest chooses boxes.
type ListRequest struct {
	Usage bool `json:"usage,omitempty"` // measure what each costs; some milliseconds a box
}

// ForkRequest makes a box that is a copy of another, running processes included. The original goes
// on. Without Name one is made from the original's.
type ForkRequest struct {
	BoxRef
	Name string `json:"name,omitempty"`
}

// CheckpointRequest saves a state to come back to. Name is optional and unique among the box's
// checkpoints.
type CheckpointRequest struct {
	BoxRef
	Name string `json:"name,omitempty"`
}

// RollbackRequest goes back; Checkpoint is an id, a unique prefix, a name, or "" for the latest.
type RollbackRequest struct {
	BoxRef
	Checkpoint string `json:"checkpoint,omitempty"`
}

// PortRequest forwards a TCP port of the box to the host's loopback.
type PortRequest struct {
	BoxRef
	Port int `json:"port"`
	Host int `json:"host,omitempty"` // 0: the same port when free, else any
}

// The calls about the host.
var (
	Status   = Endpoint[None, DaemonStatus]{"/v1/status"}
	Shutdown = Endpoint[None, None]{"/v1/shutdown"}
	Prune    = Endpoint[PruneRequest, PruneResponse]{"/v1/prune"}
	Doctor   = Endpoint[DoctorRequest, DoctorReport]{"/v1/doctor"}
)

// DaemonStatus is what runs here.
type DaemonStatus struct {
	Version string    `json:"version"` // build of the binary that serves
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Home    string    `json:"home"`
	Boxes   int       `json:"boxes"`
	Pool    int       `json:"pool"` // machines restored ahead of need
}

// PruneRequest removes what nothing needs; with DryRun it only tells what that is.
type PruneRequest struct {
	DryRun bool `json:"dry_run"`
	// Boxes removes also boxes whose checkout or branch is gone, with the work in them that may be
	// nowhere else.
	Boxes bool `json:"boxes,omitempty"`
}

// PruneResponse lists what was (or would be) removed.
type PruneResponse struct {
	Items []PruneItem `json:"items"`
}

// PruneItem is one removable thing. Bytes is what it takes of the disk.
type PruneItem struct {
	Kind  string `json:"kind"` // template, image, kernel, box, audit
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`
}

// DoctorRequest asks for a diagnosis; Probe forgets what was found out about the host before.
type DoctorRequest struct {
	Probe bool `json:"probe,omitempty"`
	// Isolation: what auto means to the caller, "" when nothing says.
	Isolation agentbox.Isolation `json:"isolation,omitempty"`
}

// DoctorReport is a list of checks.
type DoctorReport struct {
	Checks []Check `json:"checks"`
	// Kinds are the kinds of isolation that work here, first the one that a new box gets.
	Kinds []agentbox.Isolation `json:"kinds"`
}

// Check is one line of a diagnosis. Detail is what was found, be it good or bad; Hint is what to do
// about a check that failed.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// The calls about images.
var (
	BuildImage  = Endpoint[ImageBuildRequest, Image]{"/v1/image/build"}
	PullImage   = Endpoint[ImagePullRequest, Image]{"/v1/image/pull"}
	ListImages  = Endpoint[None, []Image]{"/v1/image/list"}
	ShowImage   = Endpoint[ImageRef, ImageDetail]{"/v1/image/show"}
	RemoveImage = Endpoint[ImageRef, Image]{"/v1/image/remove"}
	FetchImage  = Endpoint[ImageFetchRequest, Image]{"/v1/image/fetch"}
	ExportImage = Endpoint[ImageExportRequest, Image]{"/v1/image/export"}
	// Supervisors ask it, for machines that read a block that has not come.
	NeedImage = Endpoint[ImageNeed, agentbox.Blocks]{"/v1/image/need"}
)

// ImageFetchRequest gets an image from a directory or URL that ExportImage filled.
type ImageFetchRequest struct {
	From string `json:"from"` // an absolute path, or a URL
	// Image: digest, beginning of it, or name; "" where there is one only.
	Image string `json:"image,omitempty"`
	// Lazy gets only what a box needs, as it needs it, and the rest when it is quiet.
	Lazy bool `json:"lazy,omitempty"`
}

// ImageExportRequest writes an image into a directory, for others to fetch.
type ImageExportRequest struct {
	Image string `json:"image"`
	// Directory is where the caller is: the root of a checkout or anywhere below it.
	Directory string `json:"directory"` // absolute
}

// ImageNeed asks for a block of an image that is not all here. The answer comes when the block
// does. The caller has no time-out: a machine cannot be told that its disk is late. It ends with
// the connection.
type ImageNeed struct {
	Box   agentbox.BoxID  `json:"box"` // who waits for it
	Image agentbox.Digest `json:"image"`
	Block int             `json:"block"`
}

// ImageBuildRequest builds the image of a directory's configuration.
type ImageBuildRequest struct {
	Directory string `json:"directory"`
	// Environ is as UpRequest's.
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

// ImageDetail is an image and where all of it came from. Received, Made, Local and Missing add up
// to its size, unless blocks were damaged and came twice.
type ImageDetail struct {
	Image
	// Maker is the PeerID of the member that made it; "" is this machine.
	Maker     string `json:"maker,omitempty"`
	MakerName string `json:"maker_name,omitempty"` // what people call it
	// Upon has the PeerIDs of members that made what it was made from.
	Upon     []string        `json:"upon,omitempty"`
	Base     agentbox.Digest `json:"base,omitzero"`      // the image under what was included
	Manifest string          `json:"manifest,omitempty"` // of a registry's image, as resolved
	Received []ImageReceived `json:"received"`           // the most first
	// Made counts the bytes that this machine wrote: built, or unpacked from what a registry sent.
	Made int64 `json:"made"`
	// Local counts the bytes that nobody had to send: empty blocks, and those that other images
	// here have.
	Local   int64 `json:"local"`
	Missing int64 `json:"missing"` // bytes that have not come yet
}

// ImageReceived says how many bytes of an image somebody sent. Without peer and remote it is the
// sum of those who sent least, beyond 64.
type ImageReceived struct {
	Peer   string `json:"peer,omitempty"` // PeerID
	Name   string `json:"name,omitempty"` // of the peer
	Remote string `json:"remote,omitempty"`
	Bytes  int64  `json:"bytes"`
}

// Image is a layer 0 present here, whole or being completed.
type Image struct {
	Digest  agentbox.Digest `json:"digest"`
	Name    string          `json:"name"`
	Source  string          `json:"source"`
	Size    int64           `json:"size"`
	Created time.Time       `json:"created"`
	UsedBy  []string        `json:"used_by,omitempty"` // boxes
	// From is where the rest comes from, as long as the image is not all here; "" afterwards.
	From string `json:"from,omitempty"`
	Here int64  `json:"here,omitempty"` // bytes that are, then
}
