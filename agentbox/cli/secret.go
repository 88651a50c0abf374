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
	"agentbox/agentbox/reach"
	"agentbox/policy"
	"agentbox/policy/secrets"
)

// secretCommand groups the verbs about secrets. None of them ever prints a value.
func (a *app) secretCommand() *cli.Command {
	return &cli.Command{
		Name: "secret", Category: catPolicy, Usage: "credentials that boxes can use but never see",
		Commands: []*cli.Command{a.secretSet(), a.secretImport(), a.secretLs(), a.secretRm()},
	}
}

// secretSet is `secret set`. It stores where a value is kept and where it may be sent. The value
// itself passes through here only on its way to the keyring. A scope is required: without one, a
// program that was tricked could send the secret anywhere.
func (a *app) secretSet() *cli.Command {
	var req api.SecretRequest
	var from, form string
	return &cli.Command{
		Name: "set", Usage: "configure a credential: where its value is stored, and where it may be sent", ArgsUsage: "NAME",
		Description: "Boxes get a placeholder in the variable NAME. In requests to the hosts of --to, agentbox replaces the placeholder by the value.\n" +
			"Sources: env:VARIABLE; file:PATH, or file:PATH#KEY.KEY for a value in a JSON file below your home; login:PATH#HOST for the password\n" +
			"or token of a host in .netrc, .npmrc or a file with URLs that have one; command:LINE, which prints the value or\n" +
			"answers like a git credential helper; keyring, which asks for the value and stores it in the keyring.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "`SOURCE` of the value", Value: "keyring", Destination: &from},
			&cli.StringSliceFlag{Name: "to", Usage: "a `RULE` for where it may be sent, such as https://api.example.com; http:// allows unencrypted connections; can be repeated", Destination: &req.To},
			&cli.StringFlag{Name: "header", Usage: "set this `HEADER` in every request to these hosts, replacing what the box sends", Destination: &req.Header},
			&cli.StringFlag{Name: "as", Usage: "`FORM` in that header: bearer or basic (default: the plain value)", Destination: &form},
			&cli.StringFlag{Name: "user", Usage: "the user `NAME` for --as basic", Destination: &req.User},
			&cli.BoolFlag{Name: "everywhere", Usage: "apply to the boxes of all repositories", Destination: &req.Everywhere},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			req.Name = cmd.Args().First()
			// People try NAME=VALUE first. The value would appear in the shell's history and the
			// process list.
			if strings.Contains(req.Name, "=") {
				return agentbox.Errorf(agentbox.Invalid, "do not put a value on the command line, where other programs can read it").
					WithHint("use --from env:VARIABLE, file:PATH, command:LINE or keyring")
			}
			// A form belongs to the Authorization header unless another header is named.
			if form != "" && req.Header == "" {
				req.Header = "Authorization"
			}
			if req.Form = policy.Form(form); len(req.To) == 0 {
				return agentbox.Errorf(agentbox.Invalid, "no host given to which %s may be sent", req.Name).WithHint("for example: --to https://api.example.com")
			}
			return a.setSecret(ctx, req, from)
		},
	}
}

// setSecret reads the source and, for the keyring, the value, and has the daemon store it. A secret
// without a value is reported but is no error, because the variable may be set later. --json prints
// an api.SecretInfo.
func (a *app) setSecret(ctx context.Context, req api.SecretRequest, from string) (err error) {
	if req.From, err = secrets.Parse(from); err != nil {
		return agentbox.Errorf(agentbox.Invalid, "%w", err)
	}
	if req.PolicyRef, err = a.policyRef(ctx, ""); err != nil && !req.Everywhere {
		return err
	}
	s, err := a.storeSecret(ctx, req)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(s)
	}
	if !a.quiet {
		fmt.Fprintf(a.stdout, "secret %s from %s, to %s\n", s.Name, s.From, rulesText(s.Scope))
		// The secret is set all the same; requests that need it fail until there is a value.
		if s.Problem != "" {
			fmt.Fprintln(a.stderr, "no value yet: "+oneLine(s.Problem))
		}
	}
	return nil
}

// storeSecret has the daemon store a secret. If the value goes into the keyring, it asks for it.
// All other sources are read on this machine when the value is needed, and never pass through here.
func (a *app) storeSecret(ctx context.Context, req api.SecretRequest) (info api.SecretInfo, err error) {
	if req.From.Kind == secrets.Keyring {
		if req.Value, err = a.readValue(req.Name); err != nil {
			return info, err
		}
	}
	if a.host != "" {
		return a.lendSecret(ctx, req)
	}
	return call(ctx, a, api.SetSecret, req)
}

// lendSecret sets a secret of this machine for boxes of that of --host, which ask for its value each
// time. Nothing but its name and where it may be sent is kept there.
func (a *app) lendSecret(ctx context.Context, req api.SecretRequest) (info api.SecretInfo, err error) {
	t, err := a.there()
	if err == nil {
		err = t.AsClient()
	}
	if err != nil {
		return info, err
	}
	there := req
	there.From, there.Value, there.Environ = secrets.Reference{Kind: secrets.Client, Target: t.Client}, "", nil
	set, err := call(ctx, a, api.SetSecret, there)
	if err != nil {
		return info, err
	}
	client, err := a.here.Connect(ctx)
	if err != nil {
		return info, err
	}
	defer client.Close()
	req.PolicyRef, req.LentTo = api.PolicyRef{Environ: reach.Variables()}, &api.Lent{Host: a.host, Project: set.Project}
	if info, err = api.Call(ctx, client, api.SetSecret, req, nil); err != nil {
		return info, err
	}
	info.Project = set.Project
	return info, t.Lend(ctx)
}

// unlend forgets here what lendSecret set here, if a secret that was removed there was this machine's.
func (a *app) unlend(ctx context.Context, removed api.SecretInfo) (api.SecretInfo, error) {
	t, err := a.there()
	if err != nil || removed.From != (secrets.Reference{Kind: secrets.Client, Target: t.Client}).String() {
		return removed, err
	}
	client, err := a.here.Connect(ctx)
	if err != nil {
		return removed, err
	}
	defer client.Close()
	return api.Call(ctx, client, api.RemoveSecret, api.SecretRef{Name: removed.Name, LentTo: &api.Lent{Host: a.host, Project: removed.Project}}, nil)
}

// readValue asks for a value at the terminal without echo, or reads it from standard input. It
// returns Invalid for an empty value, which would leave an older one in place, and for one that is
// too long.
func (a *app) readValue(name string) (string, error) {
	if !term.IsTerminal(int(a.stdin.Fd())) {
		return valueOf(a.stdin, name)
	}
	fmt.Fprintf(a.stderr, "value of %s: ", name)
	b, err := term.ReadPassword(int(a.stdin.Fd()))
	fmt.Fprintln(a.stderr)
	if err != nil {
		return "", err
	}
	return valueOf(bytes.NewReader(b), name)
}

// maxValue is the length of the longest value of a secret in bytes: a key or a certificate fits, a
// large file passed by mistake does not.
const maxValue = 1 << 16

// valueOf reads the value of a secret to the end, without the line break there.
func valueOf(r io.Reader, name string) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxValue+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxValue {
		return "", agentbox.Errorf(agentbox.Invalid, "the value of %s is longer than %d bytes", name, maxValue)
	}
	if b = bytes.TrimRight(b, "\r\n"); len(b) == 0 {
		return "", agentbox.Errorf(agentbox.Invalid, "the value of %s is empty", name).WithHint("pipe the value in, or choose another source with --from")
	}
	return string(b), nil
}

// secretLs is `secret ls`. It says why a secret has no value now, if that is known without running
// a command. --json prints a list of api.SecretInfo; --quiet the names.
func (a *app) secretLs() *cli.Command {
	return &cli.Command{
		Name: "ls", Usage: "list the secrets of this repository's boxes, without their values",
		Action: func(ctx context.Context, _ *cli.Command) error {
			ref, err := a.policyRef(ctx, "")
			if err != nil {
				return err
			}
			return callAndReport(ctx, a, api.ListSecrets, ref, func(list []api.SecretInfo) facts {
				return listed(list, []string{"NAME", "FROM", "TO", "HEADER", "FOR", "PROBLEM"}, func(s api.SecretInfo) (string, []string) {
					// A secret belongs to one project or to all. One name may be in both.
					scope := "all repositories"
					if s.Project != "" {
						scope = "this repository"
					}
					return s.Name, []string{s.Name, s.From, rulesText(s.Scope), s.Header, scope, s.Problem}
				})
			})
		},
	}
}

// secretRm is `secret rm`. If its keyring entry cannot be removed, the command says so; the secret
// is removed all the same.
func (a *app) secretRm() *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "remove a secret, so that no box can use it", ArgsUsage: "NAME",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ref, err := a.policyRef(ctx, "")
			if err != nil {
				return err
			}
			s, err := call(ctx, a, api.RemoveSecret, api.SecretRef{PolicyRef: ref, Name: cmd.Args().First()})
			if err == nil && a.host != "" {
				s, err = a.unlend(ctx, s)
			}
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
