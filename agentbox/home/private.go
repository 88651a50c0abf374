package home

import (
	"os"
	"syscall"

	"agentbox/agentbox"
)

// sharedMode is the permission bits that let others put files into a directory.
const sharedMode = 0o022

// private refuses an existing directory that somebody else owns or may write to: anybody who can
// put a socket, a record or an image there acts as the user towards every box.
func private(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return agentbox.Errorf(agentbox.Missing, "cannot look at %s: %w", dir, err).WithHint("set %s to a directory of yours", EnvDir)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return agentbox.Errorf(agentbox.Invalid, "%s belongs to user %d, and you are %d: agentbox keeps keys there", dir, st.Uid, os.Geteuid()).
			WithHint("set %s to a directory of your own", EnvDir)
	}
	if info.Mode().Perm()&sharedMode != 0 {
		return agentbox.Errorf(agentbox.Invalid, "others may write to %s (mode %o): agentbox keeps keys there", dir, info.Mode().Perm()).
			WithHint("if nobody has: chmod go-w %s", dir)
	}
	return nil
}
