package snapshot

import (
	"context"
	"io"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox/environment"
)

// Guest is the box, as far as this package needs it. Both end with ctx. What they bring is bounded
// by their caller.
type Guest interface {
	// Exec runs a command as the box's user; see environment.Exec.
	Exec(ctx context.Context, cmd environment.Command) (environment.Status, error)
	// Files writes all files below a directory as a tar archive, with names relative to it.
	Files(ctx context.Context, dir string, w io.Writer) error
}

// Connection is a Guest at the other end of an SSH connection.
type Connection struct{ *ssh.Client }

// Open connects to a box of this machine.
func Open(ctx context.Context, a environment.Address, user string) (Connection, error) {
	client, err := environment.Open(ctx, a, user)
	return Connection{client}, err
}

// Exec implements Guest.
func (c Connection) Exec(ctx context.Context, cmd environment.Command) (environment.Status, error) {
	return environment.Exec(ctx, c.Client, cmd)
}

// Files implements Guest. .git is left out at the source.
func (c Connection) Files(ctx context.Context, dir string, w io.Writer) error {
	return environment.Export{Root: dir, Skip: []string{dir + "/.git"}}.Take(ctx, c.Client, w)
}
