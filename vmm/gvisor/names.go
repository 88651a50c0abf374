package gvisor

// Every name this driver puts on disk. Sockets and pipes are inherited; the one socket with a name
// is runsc's, inside of stateDir.
const (
	// In a machine's own directory (vmm.Spec.Dir).
	machineDir = "gvisor"      // what follows from here, made anew for each start
	stateDir   = "state"       // runsc's records and its control socket
	overlayDir = "overlay"     // the runtime layer: one unnamed file
	rootfsDir  = "rootfs"      // empty
	mountDir   = "root"        // empty: where the launcher puts the machine's own root together
	emptyDir   = "workspace"   // empty: the workspace of a machine without one
	savedDir   = "saved"       // links to what runsc restores from
	specFile   = "config.json" // the OCI description
	pidFile    = "sandbox.pid" //
	logFile    = "runsc.log"   // errors of runsc

	// In a template and in a saved state.
	kernelFile    = "checkpoint.img" // the kernel's objects; this name and the next two are runsc's
	pagesMetaFile = "pages_meta.img"
	pagesFile     = "pages.img"
	workspaceDir  = "workspace" // saved state with disks: a copy

	// In Config.StateDir.
	programsDir = "gvisor" // the unpacked programs
)

// Paths in the machine's own root, which the launcher makes (not the guest's).
const (
	// All are in a tmpfs of the machine's own mount namespace, and so the same for each machine: a
	// state that was saved in one root is restored in another.
	inRunsc     = "/bin/runsc"
	inAgent     = "/bin/agent"
	inImage     = "/image"
	inMachine   = "/machine"
	inWorkspace = "/workspace"
	inSaved     = "/saved"
)

// containerID is the same for all machines: each has a world of its own.
const containerID = "box"
