//go:build !linux

package git

import (
	"os"

	"golang.org/x/sys/unix"
)

// through is how a directory is opened that only leads further.
const dirOnly, through = unix.O_DIRECTORY, unix.O_RDONLY

// openNoLinks refuses a link as any component.
func openNoLinks(path string, flags int) (*os.File, error) {
	return openEach(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY)
}
