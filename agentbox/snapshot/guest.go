package snapshot

import (
	"context"
	"io"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox/environment"
)

// Guest is the box, as far as this package needs it.
type Guest interface {
	// Exec runs a command as the box's user; see environment.Exec.
	Exec(ctx context.Context, cmd environment.Command) (environment.Status, error)
	// Files writes all files below a directory as a tar archive, with names relative to it.
	Files(ctx context.Context, dir string, w io.Writer) error
}

// Over is the box at the other end of a connection.
func Over(client *ssh.Client) Guest { return guest{client} }

type guest struct{ client *ssh.Client }

func (g guest) Exec(ctx context.Context, cmd environment.Command) (environment.Status, error) {
	return environment.Exec(ctx, g.client, cmd)
}

func (g guest) Files(ctx context.Context, dir string, w io.Writer) error {
	return environment.Export{Root: dir, Skip: []string{dir + "/.git"}}.Take(ctx, g.client, w)
}
