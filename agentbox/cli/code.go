package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
)

// editors are the programs that open a directory over the user's own ssh, in the order in which they
// are looked for, with the words by which each is told: {host} and {dir} stand for where.
var editors = []struct {
	program string
	args    []string
}{
	{"code", []string{"--remote", "ssh-remote+{host}", "{dir}"}},
	{"code-insiders", []string{"--remote", "ssh-remote+{host}", "{dir}"}},
	{"cursor", []string{"--remote", "ssh-remote+{host}", "{dir}"}},
	{"windsurf", []string{"--remote", "ssh-remote+{host}", "{dir}"}},
	{"codium", []string{"--remote", "ssh-remote+{host}", "{dir}"}},
	{"zed", []string{"ssh://{host}{dir}"}},
	{"emacs", []string{"/ssh:{host}:{dir}"}},
	{"emacsclient", []string{"/ssh:{host}:{dir}"}},
}

// codeCommand is `code`: this program becomes the user's editor, after ssh knows the box. --json
// prints the command instead of running it, for editors that are started otherwise.
func (a *app) codeCommand() *cli.Command {
	var editor string
	return &cli.Command{
		Name: "code", Category: catInside, Usage: "open your editor on the workspace of a box", ArgsUsage: "[BOX]",
		Description: "The editor is the first that this machine has of " + strings.Join(editorNames(), ", ") + ".\n" +
			"It includes the configuration of boxes in ~/.ssh/config, as agentbox ssh-config --install does.",
		Flags: []cli.Flag{&cli.StringFlag{Name: "editor", Usage: "the `PROGRAM`, one of these or a path that ends so (default: $VISUAL, if it is one, or the first that is here)", Destination: &editor}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			c, err := a.connect(ctx, cmd.Args().First())
			if err != nil {
				return err
			}
			argv, err := editorOn(editor, os.Getenv("VISUAL"), c.Name+sshSuffix, c.Dir, exec.LookPath)
			if err != nil {
				return err
			}
			boxes, err := a.sshBoxes(ctx, nil)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(boxes, func(b agentbox.Box) bool { return b.ID == c.Box }) { // it is on another machine
				boxes = append(boxes, agentbox.Box{ID: c.Box, Name: c.Name})
			}
			config, err := a.sshConfig(boxes)
			if err == nil {
				err = a.installSSH(config)
			}
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(argv)
			}
			if err := syscall.Exec(argv[0], argv, os.Environ()); err != nil {
				return agentbox.Errorf(agentbox.Missing, "cannot run %s: %w", argv[0], err)
			}
			return nil
		},
	}
}

func editorNames() []string {
	var names []string
	for _, e := range editors {
		names = append(names, e.program)
	}
	return names
}

// editorOn is the command that opens a directory of a host: by the editor that was asked for, else by
// the user's visual one if it can, else by the first that find finds. The error is Missing if there is
// none.
func editorOn(asked, visual, host, dir string, find func(string) (string, error)) ([]string, error) {
	choose := func(program string) []string {
		for _, e := range editors {
			if filepath.Base(program) != e.program {
				continue
			}
			if path, err := find(program); err == nil {
				argv := []string{path}
				for _, arg := range e.args {
					argv = append(argv, strings.NewReplacer("{host}", host, "{dir}", dir).Replace(arg))
				}
				return argv
			}
		}
		return nil
	}
	programs := append([]string{strings.TrimSpace(visual)}, editorNames()...)
	if asked != "" {
		programs = []string{asked}
	}
	for _, program := range programs {
		if argv := choose(program); argv != nil {
			return argv, nil
		}
	}
	missing := strings.Join(editorNames(), ", ")
	if asked != "" {
		return nil, agentbox.Errorf(agentbox.Missing, "%s is not here, or is no editor that agentbox can start on a box", asked).
			WithHint("it is one of %s; any other that reads ~/.ssh/config opens %s:%s", missing, host, dir)
	}
	return nil, agentbox.Errorf(agentbox.Missing, "no editor is here that agentbox can start on a box: %s", missing).
		WithHint("open %s:%s in one that reads ~/.ssh/config, after agentbox ssh-config --install", host, dir)
}
