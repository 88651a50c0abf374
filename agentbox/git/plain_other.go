//go:build !linux

package git

import (
	"os"

	"golang.org/x/sys/unix"
)

const dirOnly = unix.O_DIRECTORY

// openNoLinks refuses a link as the last component; the caller has checked those above.
func openNoLinks(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}
