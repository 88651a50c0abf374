package vmm

import (
	"context"
	"net"
	"os"

	"agentbox/agentbox"
)

// Words used by every driver:
//
//   - A machine is one running guest. Its Dir belongs to it alone and holds whatever the driver needs there (the
//     runtime layer, logs, sockets); removing Dir after the machine has ended leaves nothing behind.
//   - A workspace is a path made by NewWorkspace. Only the driver knows whether it is a disk file or a directory. It
//     outlives machines, and at most one machine has it at a time.
//   - A template is a directory made by SaveTemplate: a quiesced machine that never had a real workspace, from which
//     any number of machines are restored. It is immutable once saved. Only a Templater has templates.
//   - A saved state is a directory made by Save: everything one machine is, relative to its template
//     where there is one.

// Spec describes one machine completely: with the driver's version it determines what is started.
type Spec struct {
	Name      string // for logs and process titles; the box's id
	Dir       string // absolute path of an existing private directory (0700) for this machine's files
	Image     string // the erofs file of layer 0, read-only
	Blocks    Blocks `json:"-"` // the same while it is not all here: Image is not opened then. nil: it is
	Kernel    string // a kernel directory as vmm/kernel lays it out; ignored by drivers that bring their own
	Workspace string // a path made by NewWorkspace or reserved; "" gives the guest an empty slot
	// Virtual CPUs, at least 1.
	CPUs   int
	GPUs   int   // of the host, which only gVisor and containers have; agentbox.AllGPUs for all
	Memory int64 // bytes
	Disk   int64 // bytes the workspace and the runtime layer may each grow to
}

// Blocks reads an image of which a part may still be missing here. Its methods are called from many
// goroutines.
type Blocks interface {
	// Size is that of the whole image in bytes.
	Size() int64
	// ReadBlocks fills p with the bytes at off, all of which are within Size. It waits for missing
	// ones until ctx ends, and then fails: a guest sees the image's bytes or nothing. Calls may
	// overlap.
	ReadBlocks(ctx context.Context, p []byte, off int64) error
}

// BlockReader is the optional ability of a Driver to start machines whose image is a Spec.Blocks.
// Without it, or if ReadsBlocks fails, an image must be complete.
type BlockReader interface {
	// ReadsBlocks tells why machines on this host cannot, nil if they can.
	ReadsBlocks() error
}

// Facts is what a driver found out about this host.
type Facts struct {
	Version  string `json:"version"`          // of the VMM, as it prints it
	Accel    string `json:"accel,omitempty"`  // kvm, hvf, tcg; "" where the word means nothing
	Hardware bool   `json:"hardware"`         // isolation rests on hardware virtualization
	Reason   string `json:"reason,omitempty"` // why this acceleration, one line for the user
}

// Driver starts machines of one kind. Its methods may be called from any goroutine.
type Driver interface {
	// Probe reports what the driver found on this host, or an *agentbox.Error of code Missing with
	// a hint. It may take seconds the first time; the driver's state keeps the result until
	// something it depends on changes. fresh drops it first.
	Probe(ctx context.Context, fresh bool) (Facts, error)

	// Fingerprint covers everything, besides the bytes of the image, that a saved state or a template
	// of a machine of spec depends on: what fits one of two specs with one fingerprint fits the
	// other. It contains no path of a single machine.
	Fingerprint(ctx context.Context, spec Spec) (string, error)

	// ReserveWorkspace makes the place of a workspace at path, which must not exist. A machine may
	// be given it at once, and may mount it when NewWorkspace has filled it. It costs next to
	// nothing.
	ReserveWorkspace(ctx context.Context, path string, size int64) error

	// NewWorkspace makes an empty workspace at path of the given size, or, when tree is not "", a
	// copy of that directory tree: names, modes, times to the second, symlinks and hard links;
	// every file belongs to guest user GuestUID. The path may already exist as a reserved or an
	// empty workspace of the same size, even one that a running machine was given and has not
	// mounted, or not any more. On failure nothing is left, or an empty workspace; without space
	// even for that, a reserved one.
	NewWorkspace(ctx context.Context, path, tree string, size int64) error

	// CopyWorkspace makes dst an independent copy of src, which no running machine may be writing.
	CopyWorkspace(ctx context.Context, dst, src string) error

	// Boot starts a machine cold. It returns when the VMM runs, not when the guest answers.
	Boot(ctx context.Context, spec Spec) (Machine, error)
}

// DirectoryWorkspaces is the optional ability of drivers whose workspaces are directories of the
// host, owned by this process's user.
type DirectoryWorkspaces interface {
	// FinishWorkspace turns a reserved or empty workspace, which the caller has filled, into what
	// NewWorkspace would have made of a tree. Its files belong to this process's user, and none has
	// a name elsewhere.
	FinishWorkspace(path string) error
}

// GuestUID is the owner of the workspace inside every guest, whatever the host's user is. It is the
// first id that Debian gives to a person.
const GuestUID = 1000

// Machine is one running guest. Methods may be called from any goroutine, also after the machine
// has ended.
//
// The process that called Boot or Restore is the parent of every process of the machine; when it
// dies, they die.
type Machine interface {
	// Stream is the byte stream to the guest agent, the same one for the machine's whole life. The
	// machine owns it.
	Stream() net.Conn
	// PIDs are the host processes that make up the machine, for accounting.
	PIDs() []int
	// Freeze stops the virtual CPUs and returns when no guest instruction runs; Thaw lets them go
	// on. Both are idempotent.
	Freeze(ctx context.Context) error
	Thaw(ctx context.Context) error
	// Kill ends the machine at once, as power loss does, and waits until its processes are gone.
	// Idempotent.
	Kill() error
	// Done is closed when the machine has ended, for whatever reason. Err then says why: nil after
	// Kill or a clean shutdown from inside.
	Done() <-chan struct{}
	Err() error
}

// Snapshotter is the optional ability of a Driver to save and restore machines.
type Snapshotter interface {
	// Save writes the full state of m to dir, which must not exist and appears complete or not at
	// all. m is left frozen, on failure too. A Templater saves only machines that came from Restore
	// (code Conflict otherwise).
	Save(ctx context.Context, m Machine, dir string, how Saving) error

	// Restore starts a machine from saved, a state that was saved from a machine of the same
	// fingerprint. A Templater also needs the template that this machine came from, and restores the
	// template itself if saved is ""; for all others t is nil and saved is not "".
	//
	// If the state holds disks, the runtime layer is copied from it into spec.Dir and the workspace
	// to spec.Workspace, which must not exist then. The saved state is never changed, unless it is
	// Transient, and may be removed as soon as Restore has returned. It returns when the guest's
	// CPUs run. After an error nothing runs, and nothing of the guest ever ran unless the error is a
	// MayHaveRun.
	Restore(ctx context.Context, spec Spec, t Template, saved string) (Machine, error)
}

// Templater is the optional ability of a Snapshotter to start machines from templates, where that
// is faster than a boot.
type Templater interface {
	Snapshotter

	// SaveTemplate makes dir a template from a machine that the caller has quiesced and that was
	// booted without a workspace. The machine has ended when it returns, on failure too. dir must
	// not exist; it appears complete or not at all.
	SaveTemplate(ctx context.Context, m Machine, dir string) error

	// OpenTemplate verifies every byte of the template against its digests and loads what machines
	// share. An *agentbox.Error of code Corrupt means: rebuild it. The result serves any number of
	// machines until closed; machines that were started go on without it.
	OpenTemplate(ctx context.Context, dir string) (Template, error)

	// InheritTemplate makes a Template from the Files of one that another process opened and passed
	// on by fork.
	InheritTemplate(files []*os.File) (Template, error)
}

// MayHaveRun is the error of a Restore that failed after it let go of the guest. The guest may have
// written to its disks, so a state that was saved InPlace no longer fits them. Ask for it with
// errors.As; code and hint are those of the cause.
type MayHaveRun struct{ Cause error }

func (m *MayHaveRun) Error() string { return m.Cause.Error() }
func (m *MayHaveRun) Unwrap() error { return m.Cause }

// Saving is the purpose of a saved state.
type Saving int

const (
	// InPlace: the disks stay where spec put them and must not change until the state is restored.
	InPlace Saving = iota
	// WithDisks: the runtime layer and the workspace are copied into the state.
	WithDisks
	// Transient is WithDisks for one Restore that follows at once, and whose machine is dropped if
	// it fails. Thus nothing is synced or protected against damage, and Restore may move the disks
	// out of the state.
	Transient
)

// Mover is the optional ability of a Snapshotter whose saved states fit machines on other hosts. They
// are saved InPlace, and a workspace is a directory (DirectoryWorkspaces).
type Mover interface {
	Snapshotter
	// Basis has a digest of each thing of this host that a saved state of a machine of spec depends on,
	// beside the image, by what people call it. Hosts with the same of all can restore each other's.
	Basis(ctx context.Context, spec Spec) (map[string]agentbox.Digest, error)
	// VerifySaved reads all of a saved state that may come from anybody: Corrupt if it does not match its
	// digests, Conflict if it does not fit spec.
	VerifySaved(ctx context.Context, spec Spec, saved string) error
}

// Reclaimer is the optional ability of a Driver to take back files that a guest made as another
// user than ours. Machines do so themselves when they end; Reclaimer is for what is left when the
// process that started them was killed.
type Reclaimer interface {
	// Reclaim gives everything below dir to this process's user. No machine may be using it. It is
	// idempotent.
	Reclaim(ctx context.Context, dir string) error
}

// Template is an opened template: verified, immutable, shared.
type Template interface {
	// Files are what another process needs for InheritTemplate; they stay owned by the Template.
	Files() []*os.File
	Close() error
}
