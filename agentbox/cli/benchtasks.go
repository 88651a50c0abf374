package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// taskMeasures says how the tasks of a group went. A task that did not succeed has one cause.
type taskMeasures struct {
	taskSum
	Done      int            `json:"done"`
	Succeeded int            `json:"succeeded"`
	Abandoned map[string]int `json:"abandoned"` // by cause: the words of whyAbandoned
	Retried   int            `json:"retried"`   // that needed more than one attempt
	Short     int            `json:"short"`     // whose box ran short of something, such as memory
	// WaitedP50 and WaitedP95 are how long tasks waited in the queue.
	WaitedP50 time.Duration `json:"waited_p50"`
	WaitedP95 time.Duration `json:"waited_p95"`
	waits     []time.Duration
}

// whyAbandoned returns why a task that is done did not succeed: code (its command failed),
// environment (the command could not run), machine (its machine was lost), policy, limit or
// cancelled.
func whyAbandoned(t agentbox.Task) string {
	r := &agentbox.Result{}
	if last := t.Last(); last != nil && last.Result != nil {
		r = last.Result
	}
	switch {
	case r.Cause == agentbox.CausePolicy:
		return "policy"
	case t.State == agentbox.TaskLimited:
		return "limit"
	case t.State == agentbox.TaskCancelled:
		return "cancelled"
	case t.State == agentbox.TaskLost:
		return "machine"
	case r.Exit == nil || *r.Exit == 126 || *r.Exit == 127:
		return "environment"
	}
	return "code"
}

func (t *taskMeasures) measure(one agentbox.Task) {
	t.add(one)
	if len(one.Attempts) > 0 {
		t.waits = append(t.waits, one.Attempts[0].Started.Sub(one.Created))
	}
	if len(one.Attempts) > 1 {
		t.Retried++
	}
	if last := one.Last(); last != nil && last.Result != nil && len(last.Result.Pressure) > 0 {
		t.Short++
	}
	switch {
	case !one.State.Done():
		return
	case one.State == agentbox.TaskSucceeded:
		t.Succeeded++
	default:
		t.Abandoned[whyAbandoned(one)]++
	}
	t.Done++
}

// measureTasks measures the tasks since a time by group, in the order of the groups' names.
func measureTasks(all []agentbox.Task, since time.Time, by func(agentbox.Task) string) (out []taskMeasures) {
	groups := map[string]*taskMeasures{}
	for _, t := range all {
		if t.Created.Before(since) {
			continue
		}
		name := by(t)
		if groups[name] == nil {
			groups[name] = &taskMeasures{taskSum: taskSum{By: name}, Abandoned: map[string]int{}}
		}
		groups[name].measure(t)
	}
	for _, m := range groups {
		if n := len(m.waits); n > 0 {
			slices.Sort(m.waits)
			m.WaitedP50, m.WaitedP95 = m.waits[(n-1)/2], m.waits[(95*n+99)/100-1]
		}
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b taskMeasures) int { return strings.Compare(a.By, b.By) })
	return out
}

// abandonedCauses are the words of whyAbandoned, in the order of columns.
var abandonedCauses = []string{"code", "environment", "machine", "policy", "limit", "cancelled"}

// measuresFacts are the facts of `bench tasks`.
func measuresFacts(all []taskMeasures, by string) facts {
	head := []string{strings.ToUpper(by), "TASKS", "SUCCEEDED"}
	for _, c := range abandonedCauses {
		head = append(head, strings.ToUpper(c))
	}
	f := listed(all, append(head, "RETRIED", "SHORT", "WAITED P50", "P95", "COST"), func(m taskMeasures) (string, []string) {
		row := []string{m.By, fmt.Sprint(m.Tasks), fmt.Sprintf("%d of %d", m.Succeeded, m.Done)}
		for _, c := range abandonedCauses {
			row = append(row, fmt.Sprint(m.Abandoned[c]))
		}
		return oneLine(m.By), append(row, fmt.Sprint(m.Retried), fmt.Sprint(m.Short), tookText(m.WaitedP50), tookText(m.WaitedP95), costsText(m.Costs))
	})
	return f
}

// parseSince parses how far to look back: days, as 30d, or what Go takes for a duration.
func parseSince(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	return 0, agentbox.Errorf(agentbox.Invalid, "--since: %q is not a time", text).WithHint("for example --since 30d or --since 12h")
}

// benchTasks is `bench tasks`.
func (a *app) benchTasks() *cli.Command {
	since, by := "30d", "agent"
	var req api.TaskList
	return &cli.Command{
		Name: "tasks", Usage: "say how past tasks went: what succeeded, why the others did not, how long they waited, what they cost",
		Description: "CODE: the command failed. ENVIRONMENT: it could not be run. MACHINE: its machine was lost. SHORT: the box ran short of memory or disk.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Value: since, Usage: "only tasks of the last `TIME`, such as 30d or 12h", Destination: &since},
			&cli.StringFlag{Name: "by", Value: by, Usage: "by `GROUP`: " + groupNames, Destination: &by},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "tasks of all projects", Destination: &req.All},
		},
		Action: func(ctx context.Context, _ *cli.Command) (err error) {
			span, err := parseSince(since)
			if err != nil {
				return err
			}
			group, known := taskGroups[by]
			if !known {
				return unknownGroup(by)
			}
			if req.Directory, err = os.Getwd(); err != nil {
				req.All = true
			}
			return callAndReport(ctx, a, api.ListTasks, req, func(all []agentbox.Task) facts {
				return measuresFacts(measureTasks(all, time.Now().Add(-span), group), by)
			})
		},
	}
}
