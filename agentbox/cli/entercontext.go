package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/identity"
)

// nowhere is the error for a context that is NotFound.
func nowhere(name string, err error) error {
	if agentbox.CodeOf(err) != agentbox.NotFound {
		return err
	}
	return agentbox.Errorf(agentbox.NotFound, "there is neither a box nor a task %s, here or in the team", name).WithHint("agentbox enter lists what can be entered here, agentbox ls --team what others work on")
}

// connectThere connects to what another machine of the team works on, where it is. What no other works on
// may be here, or a task of ours elsewhere.
func (a *app) connectThere(ctx context.Context, name string) (api.Connection, error) {
	c, err := call(ctx, a, api.ConnectContext, api.ContextRef{Name: name})
	if agentbox.CodeOf(err) == agentbox.NotFound {
		if c, err := a.connect(ctx, name); err == nil {
			return c, nil
		}
	}
	if err == nil && !a.quiet {
		fmt.Fprintf(a.stderr, "%s is entered where it is; exec, cp, ssh, ports and code know it as %s\n", name, c.Name)
	}
	return c, nowhere(name, err)
}

// pullContext makes a box of what another machine of the team works on, or has left, and calls it boxName
// unless that is "".
func (a *app) pullContext(ctx context.Context, ref api.ContextRef, boxName string) (c api.Connection, made bool, err error) {
	name, steal := ref.Name, ref.Steal
	if ref.Directory, err = currentDir(); err != nil {
		return c, false, err
	}
	begun := time.Now()
	got, err := call(ctx, a, api.PullContext, ref)
	if err != nil {
		return c, false, nowhere(name, err)
	}
	if err := a.reviewSource(ctx, got.Source); err != nil {
		return c, false, err
	}
	ready := time.Now()
	resp, moved, err := a.makeEntered(ctx, got, api.UpRequest{Source: &got.Source, Pins: got.Pins, Entered: got.Entered, Name: boxName, Command: true})
	if err != nil {
		return c, false, err
	}
	if !a.quiet {
		took := time.Since(ready)
		a.countImage(ctx, &got)
		printChecklist(a.stderr, got, resp, took)
		for _, s := range got.MissingSecrets {
			fmt.Fprintf(a.stderr, "secret %s is set there and not here: agentbox secret set %s ...\n", s, s)
		}
		if moved {
			fmt.Fprintf(a.stderr, "what ran in %s of %s goes on here, with its memory; there nothing of it runs any more\n", name, got.From)
		}
		if steal {
			fmt.Fprintf(a.stderr, "%s of %s is paused: agentbox push hands the work back, agentbox resume there takes it back as it was\n", name, got.From)
		}
		fmt.Fprintf(a.stderr, "%s of %s: in box %s, %s from the question to the prompt\n", name, got.From, resp.Box.Name, tookText(time.Since(begun)))
	}
	return resp.Connection, resp.Created, nil
}

// makeEntered makes the box, with what runs in the other one if that can move, and tells whether it did.
func (a *app) makeEntered(ctx context.Context, got api.PulledContext, req api.UpRequest) (resp api.UpResponse, moved bool, err error) {
	why := got.NotLive
	if got.Live != nil {
		if req.Environ == nil {
			req.Environ = a.environ()
		}
		resp, err = call(ctx, a, api.MoveContext, api.MoveRequest{UpRequest: req, Live: *got.Live})
		if agentbox.CodeOf(err) != agentbox.Conflict {
			return resp, err == nil, err
		}
		why = agentbox.AsError(err).Message
	}
	if why != "" && !a.quiet {
		fmt.Fprintf(a.stderr, "nothing that runs there can move here (%s), so it is entered by its snapshot\n", oneLine(why))
	}
	resp, err = a.up(ctx, req)
	return resp, false, err
}

// countImage adds to the step of an image that is not all here which part of it has come, and from whom.
func (a *app) countImage(ctx context.Context, got *api.PulledContext) {
	if got.Pins == nil {
		return
	}
	img, err := call(ctx, a, api.ShowImage, api.ImageRef{Image: got.Pins.Image.String()})
	if err != nil || img.Missing == 0 {
		return
	}
	for i := range got.Steps {
		step := &got.Steps[i]
		for _, r := range img.Received {
			if step.What == api.PartImage {
				step.Bytes += r.Bytes
				step.From = strings.TrimPrefix(step.From+", "+cmp.Or(r.Name, r.Peer[:min(len(r.Peer), 12)]), ", ")
			}
		}
	}
}

// writeWorktree makes a checkout of a context, here or of another machine, without a box.
func (a *app) writeWorktree(ctx context.Context, name, dir string) error {
	into, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	var of identity.Document
	here, err := call(ctx, a, api.ShowIdentity, api.BoxRef{Box: name})
	if of = here.Document; agentbox.CodeOf(err) == agentbox.NotFound {
		var at string
		if at, err = currentDir(); err != nil {
			return err
		}
		var got api.PulledContext
		got, err = call(ctx, a, api.PullContext, api.ContextRef{Name: name, Directory: at})
		of = got.Identity
	}
	if err == nil {
		_, err = call(ctx, a, api.WriteSnapshot, api.SnapshotInto{SnapshotRef: api.SnapshotRef{Snapshot: of.Snapshot.String()}, Into: into})
	}
	if err != nil {
		return err
	}
	return a.report(facts{value: of, ids: []string{into}, text: fmt.Sprintf("%s has what %s is at %s; nothing is staged", into, oneLine(name), of.Commit[:min(len(of.Commit), 12)])})
}

// reviewSource asks about what a source wants of this machine, as reviewAtTerminal does for a checkout.
func (a *app) reviewSource(ctx context.Context, of agentbox.SourceRef) error {
	if !a.interactive() || a.quiet || a.json {
		return nil
	}
	ref := api.PolicyRef{BoxRef: api.BoxRef{Directory: of.Directory}, Source: &of, Environ: a.environ()}
	r, err := call(ctx, a, api.ShowPolicy, ref)
	if err != nil || len(r.Plan) == 0 || !a.askToApprove(r) {
		return err
	}
	_, err = call(ctx, a, api.ApprovePolicy, api.ApproveRequest{PolicyRef: ref, Digest: r.Digest})
	return err
}

// printChecklist prints what entering took: the five points of a context.
func printChecklist(w io.Writer, got api.PulledContext, resp api.UpResponse, up time.Duration) {
	by := map[api.ContextPart]api.ContextStep{}
	for _, s := range got.Steps {
		by[s.What] = s
	}
	ready := by[api.PartSetup]
	ready.Took += up
	switch {
	case ready.Detail == "" && resp.Box.Cache.IsZero():
		ready.Detail = "no result of setup to bring"
	case ready.Detail == "":
		ready.Detail = "what setup made is in the image"
	}
	if n := len(resp.Box.Services); n > 0 {
		ready.Detail += ", " + agentbox.Plural(n, "service")
	}
	image := by[api.PartImage]
	if got.Pins == nil {
		image.Detail = "another one, by the same recipe"
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, s := range []api.ContextStep{by[api.PartCommits], image, by[api.PartSnapshot], ready} {
		from := "nothing fetched"
		if s.Bytes > 0 {
			from = bytesText(s.Bytes) + " from " + s.From
		}
		fmt.Fprintf(table, "%d %s\t%s\t%s\t%s\n", i+1, [...]string{"commit", "image", "snapshot", "ready"}[i], oneLine(s.Detail), tookText(s.Took), from)
	}
	fmt.Fprintf(table, "5 reset\tagentbox reset %s drops all but the work, and begins with this image; enter --rm leaves nothing\t\t\n", resp.Box.Name)
	_ = table.Flush() // standard error
}

// taskShareCommand is `task share`. --json prints an api.Shared.
func (a *app) taskShareCommand() *cli.Command {
	var req api.ShareRequest
	return &cli.Command{
		Name: "share", Usage: "let members of the team enter what a task or box works on or has left", ArgsUsage: "TASK|BOX [MEMBER...] | --project [MEMBER...]",
		Description: "Without MEMBER, all members of the team may enter it, with its commits and uncommitted files; nobody may who was not named. The last\n" +
			"call for a task, box or project counts.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "project", Usage: "share all tasks and boxes of this directory's project", Destination: &req.Project},
			&cli.BoolFlag{Name: "push", Usage: "they may also hand work back (agentbox push), pause the box meanwhile (agentbox enter --steal), move what runs in it and back (--live) and enter it where it is (--thin)", Destination: &req.Push},
			&cli.BoolFlag{Name: "stop", Usage: "let nobody enter it any more", Destination: &req.Stop},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			words := cmd.Args().Slice()
			if !req.Project {
				if len(words) == 0 {
					return agentbox.Errorf(agentbox.Invalid, "task share takes a task or a box").WithHint("agentbox enter lists them; --project shares all of this project")
				}
				req.Box, words = words[0], words[1:]
			}
			req.Members = words
			var err error
			if req.Directory, err = currentDir(); err != nil {
				return err
			}
			return callAndReport(ctx, a, api.ShareContext, req, func(s api.Shared) facts {
				who := strings.Join(s.Members, ", ")
				switch {
				case len(s.Members) == 0:
					who = "nobody"
				case who == "*":
					who = "every member of the team"
				}
				return facts{value: s, ids: []string{s.Name}, text: fmt.Sprintf("%s %s: %s may enter it%s", s.What, s.Name, who, map[bool]string{true: ", and push to it"}[s.Push])}
			})
		},
	}
}
