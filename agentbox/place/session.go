package place

import (
	"context"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox/environment"
)

// Over is the session of a place that speaks SSH. Closing it closes the client.
func Over(client *ssh.Client) Session { return overSSH{client} }

type overSSH struct{ *ssh.Client }

func (o overSSH) Run(ctx context.Context, cmd environment.Command) (environment.Status, error) {
	return environment.Exec(ctx, o.Client, cmd)
}

func (o overSSH) Files(ctx context.Context) (*environment.Files, error) {
	return environment.OpenFiles(ctx, o.Client, "")
}
