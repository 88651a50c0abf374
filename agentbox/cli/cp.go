package cli

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
)

// cpCommand is `cp`, with the rules of docker cp, which people know. Copying out of a box skips git
// directories unless --git is given: git on this machine executes what a repository's configuration
// and hooks specify, and a box wrote these.
func (a *app) cpCommand() *cli.Command {
	var opts environment.CopyOptions
	var user string
	return &cli.Command{
		Name: "cp", Category: catInside, Usage: "copy files between a box and this machine", ArgsUsage: "BOX:PATH LOCAL | LOCAL BOX:PATH",
		Description: "The rules are those of docker cp: if the destination is a directory, the source is copied into it; SRC/. means the contents of\n" +
			"SRC; - is a tar stream on standard input or output. A relative PATH starts in the workspace, and :PATH is in the box of this\n" +
			"directory. Write ./NAME for a local name with a colon. Git directories are not copied out of a box without --git; use\n" +
			"agentbox pull to get commits.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow-link", Aliases: []string{"L"}, Usage: "if SRC is a symbolic link, copy its target", Destination: &opts.FollowLink},
			&cli.BoolFlag{Name: "git", Usage: "also copy git directories out of a box, and into existing ones here: git on this machine then obeys what the box wrote there", Destination: &opts.Git},
			&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "copy as `USER` of the box", Destination: &user},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Args().Len() != 2 {
				return agentbox.Errorf(agentbox.Invalid, "cp takes a source and a destination, not %s", agentbox.Plural(cmd.Args().Len(), "argument")).
					WithHint("agentbox cp BOX:PATH LOCAL, or agentbox cp LOCAL BOX:PATH")
			}
			src, dst := parseLocation(cmd.Args().Get(0)), parseLocation(cmd.Args().Get(1))
			// A copy between boxes takes two steps through this machine; a local copy is a job for
			// cp.
			if src.inBox == dst.inBox {
				return agentbox.Errorf(agentbox.Invalid, "exactly one of %s and %s must be in a box", src, dst).
					WithHint("write BOX:PATH for a file in a box, :PATH for one in the box of this directory")
			}
			return a.copy(ctx, src, dst, user, opts)
		},
	}
}

// location is one end of a copy: a path in a box, or one on this machine.
type location struct {
	inBox bool
	box   string
	path  string
}

// parseLocation parses BOX:PATH, or a local path, which has no colon before its first slash. Write
// ./NAME for a local name with a colon.
func parseLocation(s string) location {
	box, rest, found := strings.Cut(s, ":")
	if !found || strings.Contains(box, "/") {
		return location{path: s}
	}
	return location{inBox: true, box: box, path: rest}
}

// String returns the location as it is written on the command line.
func (l location) String() string {
	if l.inBox {
		return l.box + ":" + l.path
	}
	return l.path
}

// in returns the path of a location in a box whose commands start in dir. It keeps a trailing slash
// or dot, which changes the meaning of a copy.
func (l location) in(dir string) string {
	switch {
	case l.path == "":
		return dir
	case path.IsAbs(l.path):
		return l.path
	}
	return dir + "/" + l.path
}

// copy copies in either direction; exactly one end is in a box. "-" is a tar stream on our standard
// input or output.
func (a *app) copy(ctx context.Context, src, dst location, user string, opts environment.CopyOptions) error {
	// One of the two box names is "".
	c, files, done, err := a.openFiles(ctx, src.box+dst.box, user)
	if err != nil {
		return err
	}
	defer done()
	// This must come before the copy, because it sets callbacks of the copy.
	report := a.reportCopy(&opts)
	switch {
	case src.inBox && dst.path == "-":
		err = files.TarFrom(ctx, src.in(c.Dir), a.stdout, opts)
	case src.inBox:
		err = files.CopyFrom(ctx, src.in(c.Dir), dst.path, opts)
	case src.path == "-":
		err = files.TarTo(ctx, a.stdin, dst.in(c.Dir), opts)
	default:
		err = files.CopyTo(ctx, src.path, dst.in(c.Dir), opts)
	}
	report(err)
	return err
}

// openFiles opens the files of a box as one of its users, waking the box if necessary; done closes
// them. Relative paths begin in c.Dir.
func (a *app) openFiles(ctx context.Context, box, user string) (c api.Connection, files *environment.Files, done func(), err error) {
	if c, err = a.connect(ctx, box); err != nil {
		return c, nil, nil, err
	}
	client, err := a.dial(ctx, c, user)
	if err != nil {
		return c, nil, nil, err
	}
	if files, err = environment.OpenFiles(ctx, client, ""); err != nil {
		return c, nil, nil, errors.Join(err, client.Close())
	}
	return c, files, func() { files.Close(); client.Close() }, nil
}

// reportCopy shows the progress of a copy, what it left out and, once it is done, a summary. It
// sets callbacks in opts, which are called one at a time while the copy runs.
func (a *app) reportCopy(opts *environment.CopyOptions) (done func(error)) {
	var last environment.Progress
	p, start := a.newProgress(), time.Now()
	amount := func() string { return agentbox.Plural(last.Files, "file") + ", " + bytesText(last.Bytes) }
	opts.Progress = func(now environment.Progress) {
		last = now
		p.event(agentbox.Event{Step: "copy", Detail: amount() + "  " + now.Path})
	}
	opts.Skipped = func(name, why string) {
		p.event(agentbox.Event{Note: true, Detail: "left out " + name + ": " + why})
	}
	return func(err error) {
		if err == nil {
			p.event(agentbox.Event{Step: "copy", Detail: amount(), Ended: true, Took: time.Since(start)})
		}
		p.close()
	}
}
