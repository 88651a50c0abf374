package container

// All names of this driver on disk.
const (
	// In a machine's own directory (vmm.Spec.Dir).
	machineDir = "container" // has the following, and is made again for each start
	upperDir   = "upper"     // the runtime layer: what differs from the image
	workDir    = "work"      // of the overlay
	emptyDir   = "workspace" // empty: the workspace of a machine without one

	// In Config.StateDir.
	stateDir  = "container" // has the following
	agentDir  = "agent-"    // and the start of the agent's digest: the guest agent's program
	agentName = "agentbox-guest"
	imagesDir = "images" // unpacked images, for a user who may not mount them
	sourceExt = ".from"  // beside an unpacked image: the path of the image
	tryDir    = "try-"   // a machine that only shows whether others could run
)
