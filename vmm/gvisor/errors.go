package gvisor

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"agentbox/vmm/statedir"
)

// spaceError finds out whether an error that the sandbox told in words is that of a full disk.
// gVisor sends an error over its control socket as text, so its words are all there is; the message
// of ENOSPC is the kernel's own and has one form. dir is where it was writing.
func spaceError(dir string, err error) error {
	if !strings.Contains(err.Error(), unix.ENOSPC.Error()) && !strings.Contains(err.Error(), unix.EDQUOT.Error()) {
		return err
	}
	return statedir.HostError(fmt.Errorf("%s: %w: %w", dir, err, unix.ENOSPC))
}
