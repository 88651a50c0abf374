package gvisor

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"agentbox/vmm/statedir"
)

// spaceError adds the code NoSpace to an error of the sandbox about a full disk. gVisor sends
// errors as text, in which the message of ENOSPC is the kernel's. dir is where it was writing.
func spaceError(dir string, err error) error {
	if !strings.Contains(err.Error(), unix.ENOSPC.Error()) && !strings.Contains(err.Error(), unix.EDQUOT.Error()) {
		return err
	}
	return statedir.HostError(fmt.Errorf("%s: %w: %w", dir, err, unix.ENOSPC))
}
