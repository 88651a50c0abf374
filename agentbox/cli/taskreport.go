package cli

import (
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// morning is what tasks did since a time, for the person who comes back, and for the page.
type morning struct {
	Since     time.Time      `json:"since"`
	Until     time.Time      `json:"until"`
	Succeeded int            `json:"succeeded"`
	Open      int            `json:"open"`      // that wait or run
	Abandoned map[string]int `json:"abandoned"` // by cause: the words of whyAbandoned
	Sum       taskSum        `json:"sum"`
	Rows      []morningRow   `json:"tasks"`
}

// morningRow is one task of the report.
type morningRow struct {
	Task    agentbox.TaskID    `json:"task"`
	What    string             `json:"what"`
	Project string             `json:"project"`
	Where   string             `json:"where"`
	State   agentbox.TaskState `json:"state"`
	Cause   string             `json:"cause,omitempty"` // why it did not succeed
	Reason  string             `json:"reason,omitempty"`
	Tries   int                `json:"attempts"`
	Took    time.Duration      `json:"took"`
	Work    string             `json:"work,omitempty"`
	Changed string             `json:"changed,omitempty"` // as of git diff --shortstat
	Cost    string             `json:"cost,omitempty"`
	Said    []string           `json:"said_by,omitempty"` // machines whose word the cost is
	Next    string             `json:"next"`              // the command that goes on with it
}

// reportTasks reports on the tasks of a span of time, those that did not succeed first.
func reportTasks(all []agentbox.Task, since, until time.Time) morning {
	m := morning{Since: since, Until: until, Abandoned: map[string]int{}, Rows: []morningRow{}}
	for _, t := range all {
		m.Sum.add(t)
		row := morningRowOf(t)
		switch {
		case !t.State.Done():
			m.Open++
		case t.State == agentbox.TaskSucceeded:
			m.Succeeded++
		default:
			row.Cause = whyAbandoned(t)
			m.Abandoned[row.Cause]++
		}
		m.Rows = append(m.Rows, row)
	}
	rank := func(r morningRow) int {
		return slices.Index([]bool{r.Cause != "", r.State.Done(), true}, true)
	}
	slices.SortStableFunc(m.Rows, func(a, b morningRow) int { return rank(a) - rank(b) })
	return m
}

func morningRowOf(t agentbox.Task) morningRow {
	row := morningRow{
		Task: t.ID, What: taskText(t), Project: t.Project, Where: placeText(t), State: t.State, Tries: len(t.Attempts),
		Cost: costsText(t.Costs), Said: saidBy(t), Next: nextCommand(t),
	}
	for _, a := range t.Attempts {
		row.Took += tookOf(a)
	}
	if last := t.Last(); last != nil && last.Result != nil {
		r := last.Result
		row.Reason, row.Changed = reasonText(*r), changedText(r.Changes)
		if r.Commits > 0 || r.Files > 0 || len(r.OtherWork) > 0 {
			row.Work = agentbox.WorkText(r.Commits, r.Files, r.OtherWork...)
		}
	}
	return row
}

// placeText says where a task ran last; "" for one that waits for a machine.
func placeText(t agentbox.Task) string {
	last := t.Last()
	switch {
	case t.Where == "":
		return "here"
	case last == nil:
		return ""
	}
	if last.Kept {
		return last.Worker + " keeps it"
	}
	return last.Worker
}

// changedText sums changes as git diff --shortstat does, or is "" for none.
func changedText(all []agentbox.FileChange) string {
	if len(all) == 0 {
		return ""
	}
	added, deleted := 0, 0
	for _, c := range all {
		added, deleted = added+c.Added, deleted+c.Deleted
	}
	return fmt.Sprintf("%s, +%d -%d", agentbox.Plural(len(all), "file"), added, deleted)
}

// nextCommand is the command with which a person goes on with a task: it brings the work here, or
// shows what happened.
func nextCommand(t agentbox.Task) string {
	last := t.Last()
	switch {
	case t.State == agentbox.TaskRunning:
		return fmt.Sprintf("agentbox task logs -f %s", t.ID)
	case t.State == agentbox.TaskQueued, last == nil || last.Result == nil:
		return fmt.Sprintf("agentbox task show %s", t.ID)
	case last.Result.Box != "":
		return fmt.Sprintf("agentbox shell %s", last.Result.Box)
	case last.Result.Ref != "" && t.State == agentbox.TaskSucceeded:
		return fmt.Sprintf("agentbox pull %s", t.ID)
	case last.Result.Ref != "":
		return fmt.Sprintf("agentbox diff %s", t.ID)
	case t.State == agentbox.TaskLost:
		return fmt.Sprintf("agentbox task retry %s", t.ID)
	}
	return fmt.Sprintf("agentbox task logs %s", t.ID)
}

func (m morning) headline() string {
	parts := []string{fmt.Sprintf("%d of %s succeeded", m.Succeeded, agentbox.Plural(m.Sum.Tasks, "task"))}
	for _, cause := range abandonedCauses {
		if n := m.Abandoned[cause]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", cause, n))
		}
	}
	if m.Open > 0 {
		parts = append(parts, fmt.Sprintf("not over %d", m.Open))
	}
	if costs := costsText(m.Sum.Costs); costs != "" {
		parts = append(parts, costs+unratedText(m.Sum.Costs)+saidText(m.Sum.Said))
	}
	return strings.Join(parts, ", ")
}

func morningFacts(m morning) facts {
	head := []string{"TASK", "RESULT", "WHERE", "TOOK", "CHANGED", "COST", "WHAT", "NEXT"}
	f := listed(m.Rows, head, func(r morningRow) (string, []string) {
		return r.Task.String(), []string{
			r.Task.String(), r.result(), r.Where, tookText(r.Took), r.Changed, r.costText(), cut(r.What, 60), r.Next,
		}
	})
	f.value, f.text = m, m.headline()
	return f
}

// costText says what a task cost and, if another machine measured that, which.
func (m morningRow) costText() string {
	if m.Cost == "" {
		return ""
	}
	return m.Cost + saidText(m.Said)
}

// result says how a task ended and, if it did not succeed, from what.
func (m morningRow) result() string {
	if m.Cause == "" || m.Cause == string(m.State) {
		return string(m.State)
	}
	return m.Cause + ": " + cut(m.Reason, 60)
}

//go:embed taskreport.html
var morningPage string

// writePage writes the report as one HTML page that needs nothing else. The template escapes every
// text, as much of it is from boxes.
func (m morning) writePage(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"took": tookText, "minute": func(t time.Time) string { return t.Local().Format("2006-01-02 15:04") },
		"line": oneLine, "result": morningRow.result, "cost": morningRow.costText,
	}).Parse(morningPage)
	if err != nil {
		return err
	}
	return t.Execute(w, struct {
		morning
		Headline string
	}{m, m.headline()})
}

// sinceTime parses when a report begins: yesterday, today, a date, or what parseSince takes.
func sinceTime(text string, now time.Time) (time.Time, error) {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "today":
		return midnight, nil
	case "yesterday":
		return midnight.AddDate(0, 0, -1), nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return day, nil
	}
	span, err := parseSince(text)
	if err != nil {
		return time.Time{}, agentbox.Errorf(agentbox.Invalid, "--since: %q is not a time", text).WithHint("for example --since yesterday, --since 2026-11-27 or --since 12h")
	}
	return now.Add(-span), nil
}

// taskReportCommand is `task report`.
func (a *app) taskReportCommand() *cli.Command {
	since, page := "yesterday", ""
	var req api.TaskList
	return &cli.Command{
		Name: "report", Usage: "say what tasks did meanwhile: results, failures by cause, cost, and how to go on with each",
		Description: "CODE: the command failed. ENVIRONMENT: it could not be run. MACHINE: its machine was lost.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Value: since, Usage: "tasks that were submitted or ended since `TIME`: yesterday, a date, or 12h", Destination: &since},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "tasks of all projects", Destination: &req.All},
			&cli.StringFlag{Name: "html", Usage: "write one page that needs nothing else to `FILE`", Destination: &page},
		},
		Action: func(ctx context.Context, _ *cli.Command) (err error) {
			now := time.Now()
			from, err := sinceTime(since, now)
			if err != nil {
				return err
			}
			if req.Directory, err = os.Getwd(); err != nil {
				req.All = true
			}
			req.Since = from
			all, err := call(ctx, a, api.ListTasks, req)
			if err != nil {
				return err
			}
			m := reportTasks(all, from, now)
			if page != "" {
				if err := writePageFile(page, m); err != nil {
					return err
				}
			}
			return a.report(morningFacts(m))
		},
	}
}

func writePageFile(path string, m morning) error {
	f, err := os.Create(path)
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "--html: %w", err)
	}
	if err := m.writePage(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
