package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/policy"
	"agentbox/policy/secrets"
)

// secretCommand groups the verbs about secrets. None of them ever prints a value.
func (a *app) secretCommand() *cli.Command {
	return &cli.Command{
		Name: "secret", Category: catPolicy, Usage: "credentials that boxes use without seeing them",
		Commands: []*cli.Command{a.secretSet(), a.secretLs(), a.secretRm()},
	}
}

// secretSet is `secret set`. It stores where a value is kept and where it may be sent; the value
// itself passes through here only on its way to the keyring. A scope is required: a secret for
// everywhere would leave with the first request of a program that was talked into it.
func (a *app) secretSet() *cli.Command {
	var req api.SecretRequest
	var from, form string
	return &cli.Command{
		Name: "set", Usage: "say where a credential is kept, and where it may be sent", ArgsUsage: "NAME",
		Description: "Boxes have a placeholder in the variable NAME; what leaves for the hosts of --to has the value in its place. Sources: env:VARIABLE,\n" +
			"file:PATH (or file:PATH#KEY.KEY, a value in a JSON file below your home), command:LINE (which answers as a git credential helper, or prints the value) and keyring, which asks for the value and keeps it.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "`SOURCE` of the value", Value: "keyring", Destination: &from},
			&cli.StringSliceFlag{Name: "to", Usage: "a `RULE` of where it may be sent, as https://api.example.com; http:// permits the clear; repeat it for more", Destination: &req.To},
			&cli.StringFlag{Name: "header", Usage: "put it into this `HEADER` of every request there, whatever the box sends", Destination: &req.Header},
			&cli.StringFlag{Name: "as", Usage: "`FORM` in that header: bearer or basic; the value itself if not said", Destination: &form},
			&cli.StringFlag{Name: "user", Usage: "user `NAME` for --as basic", Destination: &req.User},
			&cli.BoolFlag{Name: "everywhere", Usage: "for the boxes of all repositories", Destination: &req.Everywhere},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			req.Name = cmd.Args().First()
			// NAME=VALUE is what people try first. The value would be in the shell's history and in
			// the list of processes.
			if strings.Contains(req.Name, "=") {
				return agentbox.Errorf(agentbox.Invalid, "a value does not belong on the command line, where other programs read it").
					WithHint("--from env:VARIABLE, file:PATH, command:LINE or keyring")
			}
			// A form is one of the Authorization header's, unless another is named.
			if form != "" && req.Header == "" {
				req.Header = "Authorization"
			}
			if req.Form = policy.Form(form); len(req.To) == 0 {
				return agentbox.Errorf(agentbox.Invalid, "say where %s may be sent", req.Name).WithHint("--to https://api.example.com")
			}
			return a.setSecret(ctx, req, from)
		},
	}
}

// setSecret reads the source and, for the keyring, the value, and has the daemon keep it. A secret
// without a value yet is no error, as the variable may be set later, but it is said. --json is an
// api.SecretInfo.
func (a *app) setSecret(ctx context.Context, req api.SecretRequest, from string) (err error) {
	if req.From, err = secrets.Parse(from); err != nil {
		return agentbox.Errorf(agentbox.Invalid, "%w", err)
	}
	req.PolicyRef = a.policyRef("")
	s, err := a.storeSecret(ctx, req)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(s)
	}
	if !a.quiet {
		fmt.Fprintf(a.stdout, "secret %s from %s, to %s\n", s.Name, s.From, rulesText(s.Scope))
		// The secret is set all the same; the box is refused until there is a value.
		if s.Problem != "" {
			fmt.Fprintln(a.stderr, "no value yet: "+oneLine(s.Problem))
		}
	}
	return nil
}

// storeSecret has the daemon keep a secret, and asks for the value where that goes into the keyring.
// All other sources are read on this machine when the value is needed, and never pass through here.
func (a *app) storeSecret(ctx context.Context, req api.SecretRequest) (info api.SecretInfo, err error) {
	if req.From.Kind == secrets.Keyring {
		if req.Value, err = a.readValue(req.Name); err != nil {
			return info, err
		}
	}
	return call(ctx, a, api.SetSecret, req)
}

// readValue asks for a value without showing it, or takes it from standard input. What is read from
// a pipe is 64 KiB at most, and loses newlines at its end: files have one that the secret does not.
func (a *app) readValue(name string) (string, error) {
	// At a terminal it is typed without an echo; from a pipe it is read as it is.
	if term.IsTerminal(int(a.stdin.Fd())) {
		fmt.Fprintf(a.stderr, "value of %s: ", name)
		b, err := term.ReadPassword(int(a.stdin.Fd()))
		fmt.Fprintln(a.stderr)
		return string(b), err
	}
	// A key or a certificate fits; a file that was meant to be another argument does not.
	const most = 1 << 16
	b, err := io.ReadAll(io.LimitReader(a.stdin, most))
	if b = bytes.TrimRight(b, "\r\n"); len(b) == 0 && err == nil {
		err = agentbox.Errorf(agentbox.Invalid, "no value of %s on standard input", name).WithHint("pipe it in, or use another --from")
	}
	return string(b), err
}

// secretLs is `secret ls`: with why one has no value now, where that is known without running a
// command. --json is a list of api.SecretInfo; --quiet the names.
func (a *app) secretLs() *cli.Command {
	return &cli.Command{
		Name: "ls", Usage: "list the secrets of this repository's boxes; never their values",
		Action: func(ctx context.Context, _ *cli.Command) error {
			return tell(ctx, a, api.ListSecrets, a.policyRef(""), func(list []api.SecretInfo) facts {
				return listed(list, []string{"NAME", "FROM", "TO", "HEADER", "FOR", "PROBLEM"}, func(s api.SecretInfo) (string, []string) {
					// A secret is of one project or of all; which one is the question only where
					// both have it.
					whose := "all repositories"
					if s.Project != "" {
						whose = "this repository"
					}
					return s.Name, []string{s.Name, s.From, rulesText(s.Scope), s.Header, whose, s.Problem}
				})
			})
		},
	}
}

// secretRm is `secret rm`. An entry of the keyring that could not be removed is told, and the
// secret is gone all the same.
func (a *app) secretRm() *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "forget a secret; no box can use it any more", ArgsUsage: "NAME",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			s, err := call(ctx, a, api.RemoveSecret, api.SecretRef{PolicyRef: a.policyRef(""), Name: cmd.Args().First()})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(s)
			}
			if s.Problem != "" {
				fmt.Fprintln(a.stderr, oneLine(s.Problem))
			}
			return nil
		},
	}
}
