package conversations

import (
	"context"
	"errors"
	"io"
	"path"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
)

// Connection is a Guest over an SSH connection, as the box's user.
type Connection struct {
	*ssh.Client
	user string
}

// Open connects to a box of this machine. The caller closes the connection.
func Open(ctx context.Context, a environment.Address, user string) (Connection, error) {
	client, err := environment.Open(ctx, a, user)
	return Connection{client, user}, err
}

// Export implements Guest. The guest makes the archive; the caller bounds its size.
func (c Connection) Export(ctx context.Context, root string, dirs []string, w io.Writer) error {
	what := environment.Export{Root: root}
	for _, dir := range dirs {
		what.Paths = append(what.Paths, path.Join(root, dir))
	}
	return what.Receive(ctx, c.Client, w)
}

// Import implements Guest. Files are written by the box's own user, so nothing in the archive can
// reach further than that user.
func (c Connection) Import(ctx context.Context, root string, r io.Reader) error {
	files, err := environment.OpenFiles(ctx, c.Client, c.user)
	if err != nil {
		return err
	}
	return errors.Join(files.TarTo(ctx, r, root, environment.CopyOptions{}), files.Close())
}

// Run implements Guest.
func (c Connection) Run(ctx context.Context, script string) error {
	status, err := environment.Exec(ctx, c.Client, environment.Command{Argv: []string{"sh", "-c", script}, Stdout: io.Discard, Stderr: io.Discard})
	if err == nil && status.Code != 0 {
		err = agentbox.Errorf(agentbox.Conflict, "the command of its profile ended with exit code %d", status.Code)
	}
	return err
}

// Home implements Guest.
func (c Connection) Home(ctx context.Context) (string, error) {
	return environment.Home(ctx, c.user, func(ctx context.Context, cmd environment.Command) (environment.Status, error) {
		return environment.Exec(ctx, c.Client, cmd)
	})
}
