package snapshot

import (
	"context"
	"io"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox/environment"
)

// Guest is the access to a box that this package needs. Both methods stop when ctx ends. The
// caller bounds how much it reads.
type Guest interface {
	// Exec runs a command as the box's user; see environment.Exec.
	Exec(ctx context.Context, cmd environment.Command) (environment.Status, error)
	// Files writes all files below dir as a tar archive, with names relative to dir.
	Files(ctx context.Context, dir string, w io.Writer) error
}

// Connection is a Guest over an SSH connection. The caller closes it.
type Connection struct{ *ssh.Client }

// Open connects to a box on this machine as the given user.
func Open(ctx context.Context, a environment.Address, user string) (Connection, error) {
	client, err := environment.Open(ctx, a, user)
	return Connection{client}, err
}

// Exec implements Guest.
func (c Connection) Exec(ctx context.Context, cmd environment.Command) (environment.Status, error) {
	return environment.Exec(ctx, c.Client, cmd)
}

// Files implements Guest. It omits .git.
func (c Connection) Files(ctx context.Context, dir string, w io.Writer) error {
	return environment.Export{Root: dir, Skip: []string{dir + "/.git"}}.Receive(ctx, c.Client, w)
}
