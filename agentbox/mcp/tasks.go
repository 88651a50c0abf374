package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/client"
)

type submitIn struct {
	Directory string   `json:"directory,omitempty" jsonschema:"absolute path of a checkout on the host; default: the one this server was started in"`
	Command   string   `json:"command" jsonschema:"a line for sh -c"`
	Artifacts []string `json:"artifacts,omitempty" jsonschema:"globs of files to keep"`
	Seconds   float64  `json:"seconds,omitempty" jsonschema:"end it after so long; default: the repository's limit"`
}

type taskIn struct {
	Task string `json:"task" jsonschema:"ID of the task, such as t-12345678"`
}

type statusIn struct {
	Task string `json:"task,omitempty" jsonschema:"ID of the task; default: all tasks, the last 30 of them"`
	Wait bool   `json:"wait,omitempty" jsonschema:"answer when the task has ended"`
}

func (s Server) addTaskTools(m *mcp.Server) {
	add(m, "task_submit", "Queue a command to run in a new box of its own, with what the checkout has now. It goes on by itself; its work and output are kept, its box is not.", changes, s.submit)
	add(m, "task_status", "How a task, or all tasks, are doing.", looks, s.status)
	add(m, "task_logs", "What a task's command wrote, once it has ended.", looks, s.logs)
	add(m, "task_diff", "What a task changed.", looks, func(ctx context.Context, in taskIn, _ agentbox.Progress) (string, error) { return s.diff(ctx, in.Task) })
	add(m, "task_cancel", "End a task.", destroys, func(ctx context.Context, in taskIn, _ agentbox.Progress) (string, error) {
		t, err := client.Call(ctx, s.Client, api.CancelTask, api.TaskRef{Task: in.Task}, nil)
		return taskLine(t), err
	})
}

func (s Server) submit(ctx context.Context, in submitIn, progress agentbox.Progress) (string, error) {
	dir := in.Directory
	if dir == "" {
		dir = s.Directory
	}
	if dir == "" || in.Command == "" {
		return "", agentbox.Errorf(agentbox.Invalid, "a task needs a directory and a command")
	}
	req := api.TaskSubmission{Spec: agentbox.TaskSpec{Directory: dir, Artifacts: in.Artifacts}, Commands: [][]string{{"sh", "-c", in.Command}}}
	req.Spec.Limits.Wall = seconds(in.Seconds)
	all, err := client.Call(ctx, s.Client, api.SubmitTasks, req, progress)
	if err != nil || len(all) == 0 {
		return "", err
	}
	return taskLine(all[0]) + "\ntask_status tells how it goes; with wait, it answers at its end", nil
}

func taskLine(t agentbox.Task) string {
	line := fmt.Sprintf("task %s %s: %s", t.ID, t.State, strings.Join(t.Command, " "))
	if last := t.Last(); last != nil && last.Result != nil {
		r := last.Result
		if r.Exit != nil {
			line += fmt.Sprintf("; exit status %d", *r.Exit)
		}
		line += fmt.Sprintf("; %s, %s changed", agentbox.Plural(r.Commits, "commit"), agentbox.Plural(r.Files, "uncommitted file"))
	}
	return agentbox.Printable(line)
}

func (s Server) status(ctx context.Context, in statusIn, _ agentbox.Progress) (string, error) {
	if in.Task == "" {
		return s.listTasks(ctx)
	}
	ref := api.TaskRef{Task: in.Task}
	if in.Wait {
		t, err := client.Call(ctx, s.Client, api.WaitTask, ref, nil)
		return taskLine(t), err
	}
	info, err := client.Call(ctx, s.Client, api.ShowTask, ref, nil)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintln(&b, taskLine(info.Task))
	for _, e := range info.Timeline {
		fmt.Fprintf(&b, "%s %s %s\n", e.Time.UTC().Format("15:04:05"), e.Event, agentbox.Printable(e.Detail))
	}
	return b.String(), nil
}

func (s Server) listTasks(ctx context.Context) (string, error) {
	all, err := client.Call(ctx, s.Client, api.ListTasks, api.TaskList{All: true}, nil)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "there are no tasks", nil
	}
	var b strings.Builder
	for _, t := range all[max(0, len(all)-30):] {
		fmt.Fprintln(&b, taskLine(t))
	}
	return b.String(), nil
}

func (s Server) logs(ctx context.Context, in taskIn, _ agentbox.Progress) (string, error) {
	out := bounded.Ends{Limit: maxText}
	err := s.Client.TaskLog(ctx, in.Task, &out)
	return string(out.Bytes()), err
}
