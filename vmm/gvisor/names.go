package gvisor

import "strconv"

// All names of this driver on disk. Sockets and pipes are inherited, except for runsc's in
// stateDir.
const (
	// In a machine's own directory (vmm.Spec.Dir).
	machineDir = "gvisor"      // has the following, and is made again for each start
	stateDir   = "state"       // runsc's records and its control socket
	overlayDir = "overlay"     // the runtime layer: one unnamed file
	rootfsDir  = "rootfs"      // empty
	mountDir   = "root"        // empty: where the launcher mounts the machine's own root
	emptyDir   = "workspace"   // empty: the workspace of a machine without one
	savedDir   = "saved"       // links to the images that runsc restores
	specFile   = "config.json" // the OCI description
	pidFile    = "sandbox.pid" //
	logFile    = "runsc.log"   // errors of runsc

	// In a saved state.
	kernelFile    = "checkpoint.img" // the kernel's objects; this name and the next two are runsc's
	pagesMetaFile = "pages_meta.img"
	pagesFile     = "pages.img"
	workspaceDir  = "workspace" // with disks: a copy

	// In Config.StateDir.
	programsDir = "gvisor" // the unpacked programs
)

// Paths in the machine's own root, which the launcher makes, not in the guest's. They are the same
// for each machine, so that a state of one can be restored into another.
const (
	inRunsc     = "/bin/runsc"
	inAgent     = "/bin/agent"
	inImage     = "/image"
	inMachine   = "/machine"
	inWorkspace = "/workspace"
	inSaved     = "/saved"
)

func inGPU(i int) string { return "/gpu/" + strconv.Itoa(i) }

// containerID is the same for all machines, as each has namespaces of its own.
const containerID = "box"
