//go:build linux

package agent

import (
	"fmt"
	"io"
	"os"

	"github.com/pkg/sftp"
)

// SFTPName is the program name under which the agent serves files on its standard input and output.
// It is a process of its own, so that the kernel checks the user's permissions.
const SFTPName = "agentbox-sftp"

// ServeSFTP is that process. Relative names begin in its working directory. The server's own option
// for that would make the targets of relative links absolute. It returns at the end of its input.
func ServeSFTP() error {
	server, err := sftp.NewServer(newAppends(os.Stdin, os.Stdout))
	if err != nil {
		return fmt.Errorf("sftp: %w", err)
	}
	if err := server.Serve(); err != nil && err != io.EOF {
		return fmt.Errorf("sftp: %w", err)
	}
	return nil
}
