package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// enterCommand is `enter`: a shell or a command in the context of an agent, wherever it stands: a
// box that runs or is paused, the box of a task that runs, or a new box of what a task left.
func (a *app) enterCommand() *cli.Command {
	var r run
	var away, steal, attach, thin, live bool
	worktree := ""
	return &cli.Command{
		Name: "enter", Category: catInside, Usage: "step into what an agent works on or has left", ArgsUsage: "[BOX|TASK] [-- CMD...]",
		StopOnNthArg: a.commandFollows(),
		Description: "A box is entered as it is; a paused one goes on. Of a task that runs, it is the task's own box; of one that has ended, a new box of\n" +
			"what it left, with its image, setup and services. Of another machine of the team, [MACHINE/]NAME, a new box here like the one there:\n" +
			"its owner allows that with agentbox task share. Without a name, lists what there is here and in the team, newest trouble first, and asks\n" +
			"for a number.",
		Flags: append(r.flags(), &cli.BoolFlag{Name: "rm", Usage: "remove the box on leaving, if it was made for this; it asks if there is new work in it", Destination: &away},
			&cli.BoolFlag{Name: "attach", Usage: "attach to the agent's own terminal, of a task of yours or a box here", Destination: &attach},
			&cli.BoolFlag{Name: "steal", Usage: "pause the box on the other machine meanwhile; needs the right to push", Destination: &steal},
			&cli.BoolFlag{Name: "live", Usage: "move what runs in it here, with its memory, if the two machines are alike; needs the right to push", Destination: &live},
			&cli.BoolFlag{Name: "thin", Usage: "enter it on the other machine, where it is, instead of making one like it here; needs the right to push", Destination: &thin},
			&cli.StringFlag{Name: "worktree", Usage: "make a checkout `DIR` of it on this machine instead, for your own editor", Destination: &worktree}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Args().Len() > 1 {
				return agentbox.Errorf(agentbox.Invalid, "enter takes one box or task").WithHint("a command follows after --: agentbox enter NAME -- CMD...")
			}
			name := cmd.Args().First()
			if name == "" {
				var err error
				if name, err = a.listContexts(ctx); name == "" {
					return err
				}
			}
			if thin && (steal || live || worktree != "" || away) {
				return agentbox.Errorf(agentbox.Invalid, "--thin makes nothing here and pauses nothing there").WithHint("leave out --steal, --live, --worktree and --rm")
			}
			if live && (steal || worktree != "" || away) {
				return agentbox.Errorf(agentbox.Invalid, "what runs on one machine only is neither paused there nor removed here on leaving").WithHint("leave out --steal, --worktree and --rm")
			}
			if attach {
				return a.attachAgent(ctx, name, thin)
			}
			if worktree != "" {
				return a.writeWorktree(ctx, name, worktree)
			}
			r.argv, r.tty = a.command, r.tty || a.interactive()
			c, err := api.Connection{}, error(nil)
			made := false
			if thin {
				c, err = a.connectThere(ctx, name)
			} else {
				c, made, err = a.context(ctx, api.ContextRef{Name: name, Steal: steal, Live: live})
			}
			if err != nil {
				return err
			}
			err = a.enter(ctx, c, r)
			if !made || !away {
				return err
			}
			stdout := a.stdout
			a.stdout = a.stderr // standard output has the command's words, and no others
			defer func() { a.stdout = stdout }()
			if gone := a.removeBoxes(ctx, []string{c.Box.String()}, false); gone != nil {
				return gone
			}
			if !a.quiet {
				fmt.Fprintf(a.stderr, "reset to baseline: nothing of box %s is left, no process, port, file or credential\n", c.Name)
			}
			return err
		},
	}
}

// attachAgent attaches to the job of a task that runs, here or on another machine, or else to the one of
// a box.
func (a *app) attachAgent(ctx context.Context, name string, thin bool) error {
	if thin {
		c, err := a.connectThere(ctx, name)
		if err != nil {
			return err
		}
		name = c.Box.String()
	}
	found, err := a.jobOfTask(ctx, api.TaskRef{Task: name})
	if code := agentbox.CodeOf(err); code == agentbox.NotFound || code == agentbox.Invalid {
		found, err = call(ctx, a, api.ShowJob, api.JobRef{BoxRef: a.ref(name)})
	}
	if err != nil {
		return err
	}
	return a.attach(ctx, found, false)
}

// context finds the context that a name stands for, and tells whether a box was made for it.
func (a *app) context(ctx context.Context, ref api.ContextRef) (c api.Connection, made bool, err error) {
	name := ref.Name
	c, err = a.connect(ctx, name)
	if err == nil && (ref.Steal || ref.Live) {
		err = agentbox.Errorf(agentbox.Invalid, "%s is on this machine", name).WithHint("--steal and --live are for boxes of other machines")
	}
	if agentbox.CodeOf(err) != agentbox.NotFound {
		return c, false, err
	}
	info, taskErr := call(ctx, a, api.ShowTask, api.TaskRef{Task: name})
	if taskErr != nil {
		return a.pullContext(ctx, ref, "")
	}
	t := info.Task
	last := t.Last()
	switch {
	case last == nil:
		return c, false, agentbox.Errorf(agentbox.Conflict, "task %s has not begun", t.ID).WithHint("agentbox task show %s says for what it waits", t.ID)
	case !t.State.Done() && t.Where != "":
		c, err = a.connect(ctx, t.ID.String())
		return c, false, err
	case !t.State.Done():
		c, err = a.connect(ctx, last.BoxName)
		return c, false, err
	}
	begun := time.Now()
	source, err := a.sourceOf(ctx, name)
	if err != nil {
		return c, false, err
	}
	resp, err := a.up(ctx, api.UpRequest{Source: &source.Source, Command: true})
	if err == nil && !a.quiet {
		fmt.Fprintf(a.stderr, "%s: %s; in box %s, %s from the question to the prompt\n", t.ID, leftText(t), resp.Box.Name, tookText(time.Since(begun)))
	}
	return resp.Connection, err == nil && resp.Created, err
}

// leftText says how a task ended and what it left.
func leftText(t agentbox.Task) string {
	r := t.Last().Result
	if r == nil {
		return string(t.State)
	}
	return strings.Join([]string{string(t.State), agentbox.Plural(r.Commits, "commit"), agentbox.Plural(r.Files, "changed file")}, ", ")
}

// workContext is what can be entered.
type workContext struct {
	Kind    string    `json:"kind"` // box or task
	Name    string    `json:"name"` // for enter
	State   string    `json:"state"`
	Branch  string    `json:"branch,omitempty"`
	Time    time.Time `json:"time,omitzero"` // when the task ended, or the box was made
	Trouble bool      `json:"trouble"`
}

// listContexts lists boxes, tasks that have ended, and what others of the team work on or share: those
// that did not succeed come first, and the newest of each. At a terminal it asks for one; "" is none.
func (a *app) listContexts(ctx context.Context) (name string, err error) {
	all, err := a.contexts(ctx)
	if err != nil {
		return "", err
	}
	ask := a.interactive() && !a.quiet && !a.json && len(all) > 0
	head, n := []string{"ENTER", "KIND", "STATE", "BRANCH", "SINCE"}, 0
	if ask {
		head = append([]string{"#"}, head...)
	}
	err = a.report(listed(all, head, func(c workContext) (string, []string) {
		row, since := []string{}, ""
		if n++; ask {
			row = append(row, strconv.Itoa(n))
		}
		if !c.Time.IsZero() {
			since = agoText(c.Time)
		}
		return c.Name, append(row, c.Name, c.Kind, c.State, c.Branch, since)
	}))
	if err != nil || !ask {
		return "", err
	}
	fmt.Fprint(a.stderr, "enter number: ")
	line, _ := bufio.NewReader(a.stdin).ReadString('\n') // the end of input chooses none
	if line = strings.TrimSpace(line); line == "" {
		return "", nil
	}
	if n, err = strconv.Atoi(line); err != nil || n < 1 || n > len(all) {
		return "", agentbox.Errorf(agentbox.Invalid, "%q is no number of the list", line)
	}
	return all[n-1].Name, nil
}

// contexts are what can be entered, in the order of listContexts.
func (a *app) contexts(ctx context.Context) (all []workContext, err error) {
	boxes, err := call(ctx, a, api.ListBoxes, api.ListRequest{})
	if err != nil {
		return nil, err
	}
	tasks, err := call(ctx, a, api.ListTasks, api.TaskList{})
	if err != nil {
		return nil, err
	}
	here := map[string]bool{}
	for _, b := range boxes {
		here[b.ID.String()] = true
		all = append(all, workContext{"box", b.Name, stateText(b), b.Branch, b.Created, b.Ended != nil && !b.Ended.Requested()})
	}
	for _, t := range tasks {
		here[t.ID.String()] = true
		if last := t.Last(); last != nil && last.Result != nil && t.State.Done() {
			all = append(all, workContext{"task", t.ID.String(), leftText(t), "", last.Result.Ended, t.State != agentbox.TaskSucceeded})
		}
	}
	team, err := call(ctx, a, api.ListTeam, api.None{})
	if agentbox.CodeOf(err) == agentbox.NotFound { // there is none
		err = nil
	}
	for _, c := range team {
		state := agentbox.TaskState(c.State)
		if name := c.Machine + "/" + cmp.Or(c.Name, c.ID); c.Online && !here[c.ID] {
			if c.Kind == "task" {
				name = c.Machine + "/" + c.ID
			}
			text := c.State
			if c.Ready {
				text += ", what it began with is here"
			}
			all = append(all, workContext{c.Kind, name, text, c.Branch, time.Time{}, state.Done() && state != agentbox.TaskSucceeded})
		}
	}
	slices.SortStableFunc(all, func(x, y workContext) int {
		if x.Trouble != y.Trouble {
			if x.Trouble {
				return -1
			}
			return 1
		}
		return y.Time.Compare(x.Time)
	})
	return all, err
}
