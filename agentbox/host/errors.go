package host

import (
	"errors"
	"syscall"

	"agentbox/agentbox"
)

// noSpace gives the host's full disk its code and says what frees room; other errors pass unchanged.
func noSpace(err error) error {
	if err == nil || agentbox.CodeOf(err) == agentbox.NoSpace || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return agentbox.Errorf(agentbox.NoSpace, "%w", err).WithHint("agentbox prune frees what no box needs; agentbox ls shows the boxes")
}
