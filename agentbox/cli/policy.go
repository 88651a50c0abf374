package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/policy"
)

// policyCommand groups the verbs about what boxes may do. Rules are the user's own, for one
// repository or for all. What the repository itself asks for is approved as a whole, by digest.
func (a *app) policyCommand() *cli.Command {
	return &cli.Command{
		Name: "policy", Category: catPolicy, Usage: "show and change what boxes may reach, and show what they tried",
		Commands: []*cli.Command{
			a.policyShow(), a.policyCheck(), a.policyRule("allow"), a.policyRule("deny"), a.policyPreset(), a.policyApprove(), a.policyLog(),
		},
	}
}

// policyRef returns the repository that a verb means: the box's, or the current directory's. It
// includes the environment, because variables configure where packages come from, and includes name
// some.
func (a *app) policyRef(ctx context.Context, box string) (api.PolicyRef, error) {
	if box != "" {
		return api.PolicyRef{BoxRef: a.ref(box), Environ: a.environ()}, nil
	}
	c, err := a.checkout(ctx)
	return api.PolicyRef{BoxRef: api.BoxRef{Directory: c.directory}, Source: c.source, Environ: a.environ()}, err
}

// policyShow is `policy show`: what is in force, and what waits for approval. A person reads it
// before approving, so no word in it may act on the terminal. --json prints an api.PolicyReport.
func (a *app) policyShow() *cli.Command {
	var refresh bool
	return &cli.Command{
		Name: "show", Usage: "show the rules in force, and what waits for approval", ArgsUsage: "[BOX]",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "refresh", Usage: "ask this machine's tools again for their package registries", Destination: &refresh}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ref, err := a.policyRef(ctx, cmd.Args().First())
			if err != nil {
				return err
			}
			ref.Refresh = refresh
			r, err := call(ctx, a, api.ShowPolicy, ref)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			return a.printPolicy(r)
		},
	}
}

// printPolicy prints a policy rule by rule and layer by layer, with the owner of each rule.
func (a *app) printPolicy(r api.PolicyReport) error {
	fmt.Fprintf(a.stdout, "preset %s, for boxes of %s\n", oneLine(r.Preset), oneLine(r.Directory))
	if err := a.table(layerRows(r.Layers)); err != nil {
		return err
	}
	for _, s := range r.Secrets {
		fmt.Fprintln(a.stdout, oneLine(fmt.Sprintf("secret %s from %s, to %s", s.Name, s.From, rulesText(s.Scope))))
	}
	if len(r.Plan) > 0 {
		fmt.Fprintln(a.stdout, "\nthe repository asks for more than is approved:")
		printPlan(a.stdout, "  ", r.Plan)
		fmt.Fprintf(a.stdout, "to approve it: agentbox policy approve %s\n", r.Digest)
	}
	return nil
}

// layerRows returns the rules as a table. "at most" marks a layer that bounds the others, such as
// an organisation's.
func layerRows(layers []policy.Layer) [][]string {
	rows := [][]string{{"VERDICT", "RULE", "SOURCE"}}
	for _, l := range layers {
		source := string(l.Source)
		if l.Name != "" {
			source += " " + l.Name
		}
		// A layer that bounds the others allows nothing by itself: it denies what it does not
		// cover, whatever the others say.
		verdict := "allow"
		if l.Bound {
			verdict = "at most"
		}
		for _, r := range l.Deny {
			rows = append(rows, []string{"deny", r.String(), source})
		}
		// Notes say why the machine's layer has a rule: which tool or file asked for it.
		for i, r := range l.Allow {
			from := source
			if i < len(l.Notes) {
				from += ", " + l.Notes[i]
			}
			rows = append(rows, []string{verdict, r.String(), from})
		}
		for _, r := range l.Private {
			rows = append(rows, []string{verdict, r.String() + " (private)", source})
		}
	}
	return append(rows, []string{"deny", "everything else", string(policy.Builtin)})
}

func rulesText(rules []policy.Rule) string {
	var list []string
	for _, r := range rules {
		list = append(list, r.String())
	}
	return strings.Join(list, ", ")
}

// printPlan prints a plan, one line per change, each with a prefix. A repository wrote the plan, so
// it is sanitized.
func printPlan(w io.Writer, prefix string, plan []policy.Change) {
	for _, c := range plan {
		fmt.Fprintln(w, prefix+oneLine(c.String()))
	}
}

// policyCheck is `policy check`: the gateway's decision, by the same code, for a URL or a host and
// port. It sends nothing there, but it resolves the name.
func (a *app) policyCheck() *cli.Command {
	var req api.CheckRequest
	var box string
	return &cli.Command{
		Name: "check", Usage: "show whether a box may reach a URL, and which rule decides", ArgsUsage: "URL|HOST[:PORT]",
		Description: "The exit code is 1 if the box may not reach it.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "method", Usage: "the HTTP `METHOD` (default: GET)", Destination: &req.Method},
			&cli.StringFlag{Name: "box", Usage: "use the repository of `BOX` instead of this directory's", Destination: &box},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			var err error
			if req.PolicyRef, err = a.policyRef(ctx, box); err != nil {
				return err
			}
			req.URL = cmd.Args().First()
			r, err := call(ctx, a, api.CheckPolicy, req)
			if err != nil {
				return err
			}
			return a.printCheck(r)
		},
	}
}

// exitDenied is the exit code of check for a denial.
const exitDenied = 1

// printCheck prints a verdict, and returns exitDenied for a denial, also with --json. --json prints
// an api.CheckReport.
func (a *app) printCheck(r api.CheckReport) error {
	word := "deny"
	if r.Verdict.Allow {
		word = "allow"
	}
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(a.stdout, oneLine(fmt.Sprintf("%s %s: %s", word, r.URL, r.Verdict.Reason)))
		for _, s := range r.Secrets {
			fmt.Fprintf(a.stdout, "with the secret %s\n", s)
		}
		if r.Verdict.Hint != "" {
			fmt.Fprintf(a.stdout, "to allow it: %s\n", oneLine(r.Verdict.Hint))
		}
	}
	if !r.Verdict.Allow {
		return exit(exitDenied)
	}
	return nil
}

// policyRule is `policy allow` and `policy deny`: it adds rules to one of the user's lists, or
// removes them with --remove. --private selects a list of its own, the only one that opens private
// addresses.
func (a *app) policyRule(list string) *cli.Command {
	req := api.ChangeRequest{List: list}
	var box string
	var private bool
	cmd := &cli.Command{
		Name: list, Usage: list + " what a rule matches, for boxes of this repository, including running ones", ArgsUsage: "RULE...",
		Description: "A rule is [METHOD,... ][SCHEME://]HOST[:PORT][/PATH], for example example.com, '*.example.com:443', ssh://git.example.com,\n" +
			"192.0.2.0/24 or 'GET https://api.example.com/v1/**'. A deny rule takes precedence over every allow rule.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "remove", Usage: "remove these rules of yours", Destination: &req.Remove},
			&cli.BoolFlag{Name: "everywhere", Usage: "apply to the boxes of all repositories", Destination: &req.Everywhere},
			&cli.StringFlag{Name: "box", Usage: "use the repository of `BOX` instead of this directory's", Destination: &box},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if private {
				// --private selects the third list.
				req.List = "private"
			}
			req.Rules = cmd.Args().Slice()
			return a.changePolicy(ctx, req, box)
		},
	}
	if list == "allow" {
		cmd.Flags = append(cmd.Flags, &cli.BoolFlag{Name: "private", Usage: "also allow private addresses of the host; " + policy.HostName + ":PORT is a service of this machine", Destination: &private})
	}
	return cmd
}

// changePolicy makes a change for the repository of box ("" for this directory's), and reports
// which running boxes received it.
func (a *app) changePolicy(ctx context.Context, req api.ChangeRequest, box string) error {
	if !req.Everywhere {
		var err error
		if req.PolicyRef, err = a.policyRef(ctx, box); err != nil {
			return err
		}
	}
	r, err := call(ctx, a, api.ChangePolicy, req)
	if err != nil {
		return err
	}
	return a.printChanged(r)
}

// printChanged reports the effect of a change. --quiet prints nothing, because there is no ID.
// --json prints the resulting api.PolicyReport.
func (a *app) printChanged(r api.PolicyReport) error {
	switch {
	case a.json:
		return a.printJSON(r)
	case a.quiet:
	case len(r.Boxes) > 0:
		fmt.Fprintf(a.stdout, "in force, also in running boxes: %s\n", strings.Join(r.Boxes, ", "))
	default:
		fmt.Fprintln(a.stdout, "in force")
	}
	return nil
}

// policyPreset is `policy preset`. "none" removes the user's choice, so that the repository's
// applies again. The request needs a valid List although it changes no rule.
func (a *app) policyPreset() *cli.Command {
	req := api.ChangeRequest{List: "allow"}
	return &cli.Command{
		Name: "preset", Usage: "set your own preset for this repository: " + strings.Join(policy.Presets, ", ") + ", or none for the repository's", ArgsUsage: "PRESET",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "everywhere", Usage: "apply to the boxes of all repositories", Destination: &req.Everywhere}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			preset := cmd.Args().First()
			// In the API, the empty preset means that the user has made no choice.
			if preset == "none" {
				preset = ""
			}
			req.Preset = &preset
			return a.changePolicy(ctx, req, "")
		},
	}
}

// policyApprove is `policy approve`. With a digest it approves exactly that. Without one, a person
// must confirm the plan on the screen. A script must name the full digest: nobody can approve what
// they have not seen.
func (a *app) policyApprove() *cli.Command {
	return &cli.Command{
		Name: "approve", Usage: "approve what the repository asks for", ArgsUsage: "[DIGEST]",
		Description: "Without a digest it shows the plan and asks, which needs a terminal.",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if digest := cmd.Args().First(); digest != "" {
				return a.approve(ctx, digest)
			}
			r, err := a.showPolicy(ctx)
			switch {
			case err != nil:
				return err
			case len(r.Plan) == 0:
				fmt.Fprintln(a.stdout, "nothing waits for approval")
				return nil
			case !a.interactive():
				printPlan(a.stdout, "  ", r.Plan)
				return agentbox.Errorf(agentbox.Invalid, "without a terminal, name the digest of what you approve").WithHint("agentbox policy approve %s", r.Digest)
			}
			// Any answer but yes changes nothing, and the exit code shows it.
			if !a.askToApprove(r) {
				return agentbox.Errorf(agentbox.Conflict, "not approved; what was approved before stays in force")
			}
			return a.approve(ctx, r.Digest)
		},
	}
}

func (a *app) showPolicy(ctx context.Context) (api.PolicyReport, error) {
	ref, err := a.policyRef(ctx, "")
	if err != nil {
		return api.PolicyReport{}, err
	}
	return call(ctx, a, api.ShowPolicy, ref)
}

// approve approves what the repository asked for when this was its digest. If that has changed
// since, the error is Conflict.
func (a *app) approve(ctx context.Context, digest string) error {
	ref, err := a.policyRef(ctx, "")
	if err != nil {
		return err
	}
	r, err := call(ctx, a, api.ApprovePolicy, api.ApproveRequest{PolicyRef: ref, Digest: digest})
	if err != nil {
		return err
	}
	return a.printChanged(r)
}

// askToApprove shows a plan on the terminal and asks. Anything but yes means no. The repository's
// words are sanitized, or a plan could disguise itself as another.
func (a *app) askToApprove(r api.PolicyReport) bool {
	fmt.Fprintf(a.stderr, "%s asks for more than is approved for %s:\n", oneLine(r.Directory), oneLine(r.Project))
	printPlan(a.stderr, "  ", r.Plan)
	return a.askYesNo("approve it?")
}

// reviewAtTerminal asks, before a box starts, about what its repository's policy asks for. Without
// a terminal it does not ask, and up says which command approves. No is not an error: the box is
// made with what was approved before, and up says what waits.
//
// With sure (--approve on the command line) it does not ask either: it shows the plan and approves
// it. That is for users who have read the repository's configuration. A Makefile of that
// repository, for example, may assume so of those who run it.
func (a *app) reviewAtTerminal(ctx context.Context, sure bool, devcontainer string) error {
	if !sure && (!a.interactive() || a.quiet || a.json) {
		return nil
	}
	ref, err := a.policyRef(ctx, "")
	if err != nil {
		return err
	}
	ref.Devcontainer = devcontainer
	r, err := call(ctx, a, api.ShowPolicy, ref)
	if err != nil || len(r.Plan) == 0 {
		return err
	}
	if !sure && !a.askToApprove(r) {
		return nil
	}
	if sure {
		printPlan(a.stderr, "approved: ", r.Plan)
	}
	_, err = call(ctx, a, api.ApprovePolicy, api.ApproveRequest{PolicyRef: ref, Digest: r.Digest})
	return err
}
