package host

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/host/plan"
	"agentbox/agentbox/host/setup"
	"agentbox/agentbox/host/staging"
	"agentbox/agentbox/place"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image"
)

// phase is how far a box has come. Only boxes in phaseReady are visible. After a crash the phase
// says whether a box is to be kept, so no undo log is needed.
type phase string

const (
	phaseNew      phase = "new"      // being made; nothing of it is worth keeping
	phasePool     phase = "pool"     // a machine restored ahead of need, leased to nobody
	phaseReady    phase = "ready"    // usable; the only visible phase
	phaseMoving   phase = "moving"   // paused, and perhaps another machine's (record.Arrived)
	phaseRemoving phase = "removing" // being removed
)

// recordVersion changes when older code could no longer read a record. Added fields do not change
// it: they are optional, and an older daemon drops them.
const recordVersion = 1

// record is what a box should be. It is always written as a whole. A step that the record announces
// (such as phaseRemoving) is begun after the record is on disk; what the record claims to exist
// (such as a workspace in phaseReady) exists before. Copies of a record share maps and slices, so
// these are replaced, never changed in place.
type record struct {
	Version int `json:"version"` // recordVersion
	// Box: State, Services, Ports and Usage are filled in on request and never stored.
	Box   agentbox.Box `json:"box"`
	Phase phase        `json:"phase"` // only boxes in phaseReady exist for users
	// Key finds this box from its directory and branch (boxKey); "" for a box that is not found
	// that way.
	Key string `json:"key"`
	// Task: the box belongs to an attempt of a task. The task queue removes it, and limits end its
	// machine.
	Task bool `json:"task,omitempty"`
	// Foreign is as in api.UpRequest.
	Foreign bool `json:"foreign,omitempty"`
	// Loan is as in api.UpRequest.
	Loan json.RawMessage `json:"loan,omitempty"`
	// Bound is as in api.UpRequest.
	Bound string `json:"bound,omitempty"`
	// NoTemplate: boot the machine although its kind has templates (up --cold).
	NoTemplate bool           `json:"cold,omitempty"`
	Life       int            `json:"life"`                 // number of the present machine's directory
	Workspace  int            `json:"workspace"`            // number of the present workspace
	ImageFile  string         `json:"image_file"`           // path of what its machine starts from
	Kernel     string         `json:"kernel"`               // directory of its guest kernel; "" in gVisor
	KernelKey  string         `json:"kernel_key,omitempty"` // what the configuration asked for
	Overrides  flags.Flags    `json:"overrides"`            // from the command line
	Settings   flags.Settings `json:"settings,omitempty"`   // what the present machine was made for
	Remote     string         `json:"remote,omitempty"`     // git remote in Box.Directory
	// Account is that of another machine which has the box, as ssh takes it; "" for a box on this host.
	Account string `json:"account,omitempty"`
	Root    string `json:"root,omitempty"` // its workspace there; "" is guestWorkspace
	// Env is api.UpRequest.Env.
	Env map[string]string `json:"env,omitempty"`
	// Pins are those of api.UpRequest; a reset goes by them, too.
	Pins *api.Pins `json:"pins,omitempty"`
	// Entered is that of api.UpRequest, with the identity as which its work went back last.
	Entered *api.Entered `json:"entered,omitempty"`
	// PausedFor is the machine for which the box is paused: it works on a copy or, with MovedTo, has what
	// ran here.
	PausedFor string `json:"taken,omitempty"`
	// MovedTo is the move by which what ran in the box has gone. It never runs here again.
	MovedTo *api.LiveMove `json:"given,omitempty"`
	// MovedRunning: it goes on if the box comes back.
	MovedRunning bool `json:"given_running,omitempty"`
	// Arrived is where what runs in the box comes from, or came from.
	Arrived *arrived `json:"arrived,omitempty"`
	// Subdir is where below Box.Directory the configuration was looked for.
	Subdir string `json:"subdir,omitempty"`
	User   string `json:"user"` // of commands
	// Pool is how many machines are kept ready for boxes like this one; config.PoolAuto lets the
	// daemon decide.
	Pool     int         `json:"pool"`
	Hardware bool        `json:"hardware"` // isolation rests on hardware virtualization
	Guest    guestConfig `json:"guest"`    // what a fresh machine is given
	// FormerGuest is Guest in a record of a build up to 0e3ba6c8. It is only read.
	FormerGuest *guestConfig `json:"attach,omitempty"`
	Setup       []string     `json:"setup,omitempty"` // for sh -c, once per workspace
	// SetupResult is the result that the image, and the workspace at first, came from. Its key is
	// Box.Cache.
	SetupResult agentbox.Digest `json:"setup_result,omitzero"`
	// SetUp: setup has run, here or in the clean box whose result the workspace has.
	SetUp bool `json:"set_up,omitempty"`
	// Start: for sh -c, whenever a fresh machine starts.
	Start []string `json:"start,omitempty"`
	// StartDue: the start commands have yet to run in the present machine.
	StartDue bool         `json:"start_due,omitempty"`
	StartErr string       `json:"start_failed,omitempty"` // why they failed in it
	Suite    string       `json:"suite,omitempty"`        // release of an apt: image
	Limits   place.Limits `json:"limits"`                 // that its machine may reach
	Detached bool         `json:"detached,omitempty"`     // Box.Branch is a commit
	// Approved: digest of the approved document that governs it.
	Approved string `json:"approved,omitempty"`
	// approvals counts the calls of setApproved in this process, which do not wait for op.
	approvals int
	// Seed is random: the box's placeholders for secrets are derived from it.
	Seed string `json:"seed,omitempty"`

	// Histories lists, for each agent that was run in the box, the directories below the home that
	// have its conversations.
	Histories map[string][]string `json:"histories,omitempty"`
	// HistorySaves has the profiles' commands that write the conversations there.
	HistorySaves map[string]string `json:"history_saves,omitempty"`
	// Recalled is the life in which each agent last got its earlier conversations.
	Recalled map[string]int `json:"recalled,omitempty"`
}

// guestConfig is what a fresh machine is given to become this box. It is in the record because a
// restored or stopped box must come back with what it was made with, whatever the configuration
// says now.
type guestConfig struct {
	Env      map[string]string         `json:"env,omitempty"`      // of all commands
	Services []protocol.Service        `json:"services,omitempty"` // that the guest runs
	Ports    []agentbox.ConfiguredPort `json:"ports,omitempty"`    // that are forwarded to this host
}

func (r record) names(h home.Home) home.Box { return h.Box(r.Box.ID) }

// flagsNow returns the flags the box was made with. A box keeps its kind of machine.
func (r record) flagsNow() flags.Flags {
	asked := r.Overrides
	if r.Box.Isolation != "" {
		asked.Isolation = r.Box.Isolation
	}
	return asked
}

// spec describes the present life. One that is to boot begins with nothing that was prepared.
func (r record) spec() place.Spec {
	key := r.Box.Template
	if r.NoTemplate {
		key = ""
	}
	return place.Spec{
		ID: r.Box.ID, Name: r.Box.Name, Note: isolationNote(r), Life: r.Life, Workspace: r.Workspace, Kind: r.Box.Isolation,
		Image: r.Box.Image, File: r.ImageFile, Kernel: r.Kernel, CPUs: r.Box.CPUs, GPUs: r.Box.GPUs, Memory: r.Box.Memory, Disk: r.Box.Disk, Key: key, Lease: leaseTime, Account: r.Account,
	}
}

func (r record) address(h home.Home) environment.Address {
	names := r.names(h)
	return environment.Address{Name: r.Box.Name, Socket: names.SSH(), Key: names.Key(), KnownHosts: names.KnownHosts()}
}

func (r record) setupBox(h home.Home) setup.Box {
	return setup.Box{Name: r.Box.Name, User: r.User, Dir: r.names(h).Dir, Workspace: r.workspace(), Address: r.address(h)}
}

func (r record) workspace() string { return cmp.Or(r.Root, guestWorkspace) }

func (r record) stagingTarget(h home.Home) staging.Target {
	to := staging.Target{Spec: r.spec(), From: r.Box.Directory, Commit: r.Box.Commit, Setup: r.SetupResult}
	if r.Box.Directory != "" {
		to.Baseline = r.names(h).Baseline()
	}
	return to
}

func (r record) subject(h home.Home) egress.Subject {
	return egress.Subject{Root: r.root(h), At: r.place(h), Project: r.Box.Project, Document: r.Approved, Seed: r.Seed, Limits: r.Limits, Foreign: r.Foreign, Loan: r.Loan, Bound: r.Bound}
}

// root is the checkout that the box was made from, or its source's tree; "" for a box without.
func (r record) root(h home.Home) string {
	if !r.Box.Source.IsZero() {
		return h.SourceTree(r.Box.Source)
	}
	return r.Box.Directory
}

func (r record) place(h home.Home) config.Place {
	return placeIn(r.root(h), r.Subdir, r.Overrides.Devcontainer)
}

// placeIn is where the configuration of a directory below root is. A directory that is gone is
// replaced by the nearest one above it, as nothing there can govern a box any more.
func placeIn(root, subdir, devcontainer string) config.Place {
	sub := filepath.FromSlash(subdir)
	for ; sub != "." && sub != ""; sub = filepath.Dir(sub) {
		if info, err := os.Stat(filepath.Join(root, sub)); err == nil && info.IsDir() {
			break
		}
	}
	return config.Place{Directory: filepath.Join(root, sub), Devcontainer: devcontainer}
}

// newLike is the record of a new box like this one. It has no key and no remote, so that nobody
// finds it. Callers set its id.
func (r record) newLike() record {
	r.Phase, r.Key, r.Remote, r.Life, r.Workspace = phaseNew, "", "", 1, 1
	r.Arrived = nil // only one box goes back
	return r
}

func (r record) planBox(state agentbox.State) *plan.Box {
	b := r.Box
	b.State = state
	return &plan.Box{
		Box: b, Approved: r.Approved, Agent: r.Overrides.Agent, SetupDue: r.setupDue(), StartDue: r.StartDue, Task: r.Task,
		Start: r.Start, Services: r.Guest.Services,
	}
}

// setupDue tells whether the workspace still lacks what setup makes.
func (r record) setupDue() bool { return len(r.Setup) > 0 && !r.SetUp }

func (r *record) startFrom(img image.Image) {
	r.ImageFile, r.Box.Image, r.Box.ImageName = img.Path, img.Digest, img.Name
}

// readRecord reads the record of a box. Corrupt for a file that is no record, an error with both
// versions for one of another version, an os.ErrNotExist for none. A box cannot write its record,
// so the content is trusted.
func readRecord(path string) (record, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{}, agentbox.Classify(agentbox.Corrupt, "%s is not a box record: %w", path, err)
	}
	if r.FormerGuest != nil {
		r.Guest, r.FormerGuest = *r.FormerGuest, nil
	}
	if r.Version != recordVersion {
		return record{}, fmt.Errorf("%s was written by another version of agentbox (format %d, this one reads %d)", path, r.Version, recordVersion)
	}
	return r, nil
}

// writeRecord makes a record durable, as a whole or not at all. The box's directory must exist.
func writeRecord(h home.Home, r record) error {
	r.Version = recordVersion
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return agentbox.MarkNoSpace(durable.WriteFile(r.names(h).Record(), b, 0o600))
}
