package environment

import (
	"bytes"
	"context"
	"path"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
)

// maxHome bounds the path that a box gives as its user's home: Linux's longest, in bytes.
const maxHome = 4 << 10

// Home asks a box for a user's home directory, an absolute path. exec runs a command as that
// user. The shell comes from the image, so the answer is bounded and checked.
// Conflict if there is no home.
func Home(ctx context.Context, user string, exec func(context.Context, Command) (Status, error)) (string, error) {
	none := agentbox.Errorf(agentbox.Conflict, "user %s of the box has no home directory", user)
	var home bytes.Buffer
	status, err := exec(ctx, Command{
		Argv: []string{"sh", "-c", `printf %s "$HOME"`}, Stdout: &bounded.LimitedWriter{W: &home, Remaining: maxHome, Err: none},
	})
	switch {
	case err != nil:
		return "", err
	case status.Code != 0 || !path.IsAbs(home.String()):
		return "", none
	}
	return home.String(), nil
}
