package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox/api"
)

// serveCommand is `serve`. Like `daemon`, this process becomes the daemon's program.
func (a *app) serveCommand() *cli.Command {
	var s served
	return &cli.Command{
		Name: "serve", Category: catFaces, Usage: "serve the HTTP API, an MCP server and a page until interrupted",
		Description: "Programs send a token (agentbox token create) as Authorization: Bearer TOKEN. GET /v1/openapi.json describes the calls.",
		Flags: append(s.flags("127.0.0.1:0"), &cli.BoolFlag{Name: "e2b", Destination: &s.e2b,
			Usage: "also serve programs written for the E2B SDK; sandboxes are made of the checkout that this is started in"}),
		Action: func(ctx context.Context, _ *cli.Command) error { return a.serve(ctx, "serve", s) },
	}
}

// uiCommand is `ui`.
func (a *app) uiCommand() *cli.Command {
	var s served
	return &cli.Command{
		Name: "ui", Category: catFaces, Usage: "serve a page with boxes and tasks, and open it",
		Description: "The page's address works once, in one browser, which is then let in until the command ends.",
		Flags:       s.flags("127.0.0.1:0"),
		Action:      func(ctx context.Context, _ *cli.Command) error { return a.serve(ctx, "ui", s) },
	}
}

// served is where something is served.
type served struct {
	listen, cert, key string
	names             []string
	e2b               bool
}

func (s *served) flags(at string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "listen", Usage: "serve at `ADDRESS:PORT`; port 0 is a free one", Value: at, Destination: &s.listen},
		&cli.StringSliceFlag{Name: "name", Usage: "answer to the host `NAME` too, beside localhost and addresses; can be repeated", Destination: &s.names},
		&cli.StringFlag{Name: "tls-cert", Usage: "certificate `FILE` in PEM, for addresses that other machines reach", Destination: &s.cert},
		&cli.StringFlag{Name: "tls-key", Usage: "its key's `FILE`", Destination: &s.key},
	}
}

func (a *app) serve(ctx context.Context, verb string, s served) error {
	client, err := a.daemon(ctx) // starts one
	if err != nil {
		return err
	}
	client.Close()
	args := []string{"-listen", s.listen, "-tls-cert", s.cert, "-tls-key", s.key}
	for _, name := range s.names {
		args = append(args, "-name", strings.ToLower(name))
	}
	if s.e2b {
		dir, err := currentDir()
		if err != nil {
			return err
		}
		args = append(args, "-e2b", dir)
	}
	if a.quiet {
		args = append(args, "-quiet")
	}
	return a.become(verb, args...)
}

func (a *app) tokenCommand() *cli.Command {
	return &cli.Command{
		Name: "token", Category: catFaces, Usage: "let other programs call agentbox serve",
		Commands: []*cli.Command{
			a.tokenCreateCommand(),
			{Name: "ls", Usage: "list the tokens", Action: func(ctx context.Context, _ *cli.Command) error {
				return callAndReport(ctx, a, api.ListTokens, api.None{}, func(all []api.Token) facts {
					return listed(all, []string{"ID", "NAME", "SCOPE", "PROJECT", "AGE", "EXPIRES"}, func(t api.Token) (string, []string) {
						return t.ID, []string{t.ID, t.Name, string(t.Scope), t.Project, agoText(t.Created), expiryText(t)}
					})
				})
			}},
			{Name: "rm", Usage: "make a token invalid at once", ArgsUsage: "ID|NAME", Action: func(ctx context.Context, cmd *cli.Command) error {
				return callAndReport(ctx, a, api.RemoveToken, api.TokenRef{Token: cmd.Args().First()}, func(t api.Token) facts {
					return facts{value: t, ids: []string{t.ID}, text: "removed token " + t.ID}
				})
			}},
		},
	}
}

func expiryText(t api.Token) string {
	if t.Expires.IsZero() {
		return "never"
	}
	return t.Expires.Local().Format("2006-01-02 15:04")
}

// tokenCreateCommand is `token create`. Only the token itself goes to standard output, so that a
// script can keep it. --json prints an api.NewToken.
func (a *app) tokenCreateCommand() *cli.Command {
	var req api.TokenRequest
	var scope string
	var project bool
	return &cli.Command{
		Name: "create", Usage: "make a token and print it, this once",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "name", Usage: "call it `NAME`", Destination: &req.Name},
			&cli.StringFlag{Name: "scope", Usage: "what it permits: read, run (also make and change boxes), or admin (also change what they may do)", Value: "run", Destination: &scope},
			&cli.BoolFlag{Name: "project", Usage: "only for boxes and tasks of this directory's project", Destination: &project},
			&cli.DurationFlag{Name: "expires", Usage: "valid for `TIME`, such as 720h", Value: 30 * 24 * time.Hour, Destination: &req.Valid},
		},
		Action: func(ctx context.Context, _ *cli.Command) (err error) {
			req.Scope = api.Scope(scope)
			if project {
				if req.Directory, err = currentDir(); err != nil {
					return err
				}
			}
			t, err := call(ctx, a, api.CreateToken, req)
			if err != nil {
				return err
			}
			if !a.quiet && !a.json {
				fmt.Fprintf(a.stderr, "token %s for %s, expires %s; it is not shown again\n", t.ID, t.Scope, expiryText(t.Token))
			}
			return a.report(facts{value: t, ids: []string{t.Text}, text: t.Text})
		},
	}
}
