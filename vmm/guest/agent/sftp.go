//go:build linux

package agent

import (
	"fmt"
	"io"
	"os"

	"github.com/pkg/sftp"
)

// SFTPName is the program name under which the agent is a file server on its standard input and output: a process of
// its own, so that the kernel checks the user's permissions.
const SFTPName = "agentbox-sftp"

// ServeSFTP is that process.
func ServeSFTP() error {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	server, err := sftp.NewServer(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout}, sftp.WithServerWorkingDirectory(dir))
	if err != nil {
		return fmt.Errorf("sftp: %w", err)
	}
	if err := server.Serve(); err != nil && err != io.EOF {
		return fmt.Errorf("sftp: %w", err)
	}
	return nil
}
