package supervisor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// noCores keeps the memory of this process and its children out of files: it holds values of
// secrets, and that of guests. Children inherit it.
func noCores() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	return nil
}
