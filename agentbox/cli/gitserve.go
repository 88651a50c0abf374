package cli

import (
	"context"
	"os"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/workspace"
)

// gitServices are the services that git may request for a fetch or a push. Anything else, such as
// git-upload-archive, is refused.
var gitServices = map[string]string{"git-upload-pack": "upload-pack", "git-receive-pack": "receive-pack"}

// uploadPack serves a fetch. It first creates refs for what a fetch would otherwise miss: a
// detached HEAD, and the branches of submodules. Errors of that step are shown and stop nothing.
// The box's shell runs it, with the rights of the box, on refs that the box wrote. Git on this
// machine receives a pack, which it checks like that of any server.
const uploadPack = `{
	if head=$(git rev-parse -q --verify HEAD) && ! git symbolic-ref -q HEAD; then
		git update-ref ` + workspace.DetachedRefs + `HEAD "$head"
	elif git rev-parse -q --verify ` + workspace.DetachedRefs + `HEAD; then
		git update-ref -d ` + workspace.DetachedRefs + `HEAD
	fi
	if [ -f .gitmodules ]; then
		top=$(pwd) git submodule --quiet foreach --recursive '
			git -c protocol.file.allow=always -C "$top" fetch -q --no-tags --no-recurse-submodules --no-write-fetch-head "$top/$displaypath" \
				"+refs/heads/*:` + workspace.ModuleRefs + `$displaypath/*" "+HEAD:` + workspace.ModuleRefs + `$displaypath/HEAD" || true'
	fi
} >/dev/null
exec git upload-pack .`

// gitServeCommand is what git runs for the remote of a box (see workspace.AddRemote). It replaces
// the service that git would run on a local path, and runs it on the workspace in the box.
func (a *app) gitServeCommand() *cli.Command {
	return &cli.Command{
		Name: "git-serve", Hidden: true, Usage: "serve the repository in a box to git on this machine", ArgsUsage: "BOX SERVICE PATH",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			service, ok := gitServices[cmd.Args().Get(1)]
			if !ok {
				return agentbox.Errorf(agentbox.Invalid, "%q is not a git service that boxes offer", cmd.Args().Get(1))
			}
			// Git's current directory does not say where to go in the box: always use the top of
			// the workspace.
			c, err := call(ctx, a, api.Connect, api.BoxRef{Box: cmd.Args().First()})
			if err != nil {
				return err
			}
			r := run{argv: []string{"git", service, "."}, dir: c.Dir}
			if service == "upload-pack" {
				r.argv = []string{"sh", "-c", uploadPack}
			}
			if v := os.Getenv("GIT_PROTOCOL"); v != "" {
				r.env = map[string]string{"GIT_PROTOCOL": v}
			}
			return a.runIn(ctx, c, r)
		},
	}
}
