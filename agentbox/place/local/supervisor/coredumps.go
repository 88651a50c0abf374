package supervisor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// disableCoreDumps forbids core dumps of this process and its children, which inherit the limit:
// their memory holds the values of secrets, and that of guests.
func disableCoreDumps() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	return nil
}
