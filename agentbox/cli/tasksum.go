package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// taskSum is what a group of tasks has used together, over all attempts. Costs in different
// currencies stay separate.
type taskSum struct {
	By    string               `json:"by"` // what the tasks have in common
	Tasks int                  `json:"tasks"`
	Used  agentbox.Consumption `json:"used"`
	Costs []agentbox.Cost      `json:"costs,omitempty"`
	Said  []string             `json:"said_by,omitempty"` // machines whose word some of it is
}

// groupNames are the keys of taskGroups, for people.
const groupNames = "project, agent, member, state or week"

func unknownGroup(by string) error {
	return agentbox.Errorf(agentbox.Invalid, "unknown --by %s: tasks are summed by %s", by, groupNames)
}

// taskGroups maps the values of task ls --by to functions that return a task's group. A week is the
// ISO 8601 week of the submission.
var taskGroups = map[string]func(agentbox.Task) string{
	"project": func(t agentbox.Task) string { return t.Project },
	"agent":   func(t agentbox.Task) string { return cmp.Or(t.Agent, "none") },
	"member":  func(t agentbox.Task) string { return cmp.Or(placeText(t), "none") }, // whose machine ran it
	"state":   func(t agentbox.Task) string { return string(t.State) },
	"week": func(t agentbox.Task) string {
		// The year is that of the week, which may differ from the day's.
		year, week := t.Created.Local().ISOWeek()
		return fmt.Sprintf("%d-W%02d", year, week)
	},
}

// sumTasks sums tasks by the group that by returns, sorted by that name. Tasks of a group need not
// be adjacent in the list.
func sumTasks(all []agentbox.Task, by func(agentbox.Task) string) []taskSum {
	// There are few groups, so a linear search is enough.
	sums := []taskSum{}
	for _, t := range all {
		name := by(t)
		i := slices.IndexFunc(sums, func(s taskSum) bool { return s.By == name })
		if i < 0 {
			i = len(sums)
			sums = append(sums, taskSum{By: name})
		}
		sums[i].add(t)
	}
	slices.SortFunc(sums, func(x, y taskSum) int { return strings.Compare(x.By, y.By) })
	return sums
}

// add adds a task to the sum. A task without measurements only increases the number of tasks.
func (t *taskSum) add(one agentbox.Task) {
	t.Tasks++
	if one.Used != nil {
		t.Used = t.Used.Plus(*one.Used)
	}
	for _, c := range one.Costs {
		t.Costs = agentbox.AddCost(t.Costs, c)
	}
	t.Said = slices.Compact(slices.Sorted(slices.Values(append(t.Said, saidBy(one)...))))
}

// saidBy are the machines that measured what attempts of a task used. This one cannot check that.
func saidBy(t agentbox.Task) (names []string) {
	for _, a := range t.Attempts {
		if a.Worker != "" && a.Result != nil && a.Result.Used != nil {
			names = append(names, a.Worker)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// saidText says whose word figures are; "" for this machine's own.
func saidText(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ", measured by " + oneLine(strings.Join(names, ", "))
}

// allTasks returns the last line of a list of tasks: the sum over the list, so that nobody has to
// add up a column. It is "" for an empty list.
func allTasks(all []agentbox.Task) string {
	if len(all) == 0 {
		return ""
	}
	s := sumTasks(all, func(agentbox.Task) string { return "" })[0]
	parts := []string{
		agentbox.Plural(s.Tasks, "task") + ": cpu " + tookText(s.Used.CPU), "memory " + heldText(s.Used.Memory) + " GiB-s",
		fmt.Sprintf("network %s in, %s out", bytesText(s.Used.In), bytesText(s.Used.Out)),
	}
	// Most tasks use no model.
	if tokens := s.Used.Tokens(); tokens.Answers > 0 {
		parts = append(parts, agentbox.Plural(int(tokens.Total()), "token"))
	}
	if costs := costsText(s.Costs); costs != "" {
		parts = append(parts, costs)
	}
	return strings.Join(parts, ", ") + unratedText(s.Costs) + saidText(s.Said)
}

// heldText returns memory held over time, in GiB-seconds. It needs decimals: a task of one second
// holds some hundredths.
func heldText(held float64) string {
	switch {
	case held == 0:
		return "0"
	case held < 0.001:
		return "<0.001"
	case held < 1:
		return fmt.Sprintf("%.2g", held)
	}
	return fmt.Sprintf("%.1f", held)
}

// costsText returns costs as text, or "" if they are unknown.
func costsText(costs []agentbox.Cost) string {
	var parts []string
	for _, c := range costs {
		parts = append(parts, fmt.Sprintf("%.4f %s", c.Amount, c.Currency))
	}
	return strings.Join(parts, " + ")
}

// unratedText names the models that the costs do not include.
func unratedText(costs []agentbox.Cost) string {
	var names []string
	for _, c := range costs {
		names = append(names, c.Unrated...)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return ", without " + oneLine(strings.Join(slices.Compact(names), ", ")) + ", which rates.yaml does not have"
}

// sumFacts returns what tasks have used, summed by group; by names the grouping. The line below the
// table is the sum over all tasks. --json prints a list of taskSum.
func sumFacts(all []agentbox.Task, by string, group func(agentbox.Task) string) facts {
	head := []string{strings.ToUpper(by), "TASKS", "CPU", "GIB-S", "IN", "OUT", "TOKENS", "COST"}
	f := listed(sumTasks(all, group), head, func(s taskSum) (string, []string) {
		return oneLine(s.By), []string{
			s.By, fmt.Sprint(s.Tasks), tookText(s.Used.CPU), heldText(s.Used.Memory), bytesText(s.Used.In), bytesText(s.Used.Out),
			fmt.Sprint(s.Used.Tokens().Total()), costsText(s.Costs),
		}
	})
	f.text = allTasks(all)
	return f
}

// tookOf returns how long an attempt took, or has taken so far.
func tookOf(a agentbox.Attempt) time.Duration {
	if a.Result != nil {
		return a.Result.Ended.Sub(a.Started)
	}
	return time.Since(a.Started)
}

// usedRows says what an attempt has used and, with a table of rates, what that costs. worker is the
// machine that measured it, "" for this one. Names of models are a server's words. It returns no rows
// if nothing could be measured.
func usedRows(r agentbox.Result, worker string) (rows [][]string) {
	u := r.Used
	if u == nil {
		return nil
	}
	var said []string
	if worker != "" {
		said = []string{worker}
	}
	rows = append(rows, []string{"used", fmt.Sprintf("cpu %s, memory %s GiB-s (%s at most), network %s in, %s out%s",
		tookText(u.CPU), heldText(u.Memory), bytesText(u.MemoryPeak), bytesText(u.In), bytesText(u.Out), saidText(said))})
	for _, name := range slices.Sorted(maps.Keys(u.Models)) {
		rows = append(rows, []string{"model", tokensText(name, u.Models[name])})
	}
	// Cost is nil without a table of rates, and 0 for a task that cost nothing.
	if r.Cost != nil {
		rows = append(rows, []string{"cost", costText(*r.Cost)})
	}
	return rows
}

// tokensText returns the tokens of one model, including cache tokens only if there are any.
func tokensText(name string, t agentbox.Tokens) string {
	if name == "" {
		name = "unnamed"
	}
	text := fmt.Sprintf("%s: %s, %d tokens in, %d out", name, agentbox.Plural(int(t.Answers), "answer"), t.Input, t.Output)
	if t.CacheRead > 0 || t.CacheWrite > 0 {
		text += fmt.Sprintf(", %d read from and %d written to its cache", t.CacheRead, t.CacheWrite)
	}
	if t.Unreported > 0 {
		text += fmt.Sprintf("; %d did not say what they used", t.Unreported)
	}
	if not := t.Unfinished(); not != "" {
		text += "; " + not
	}
	return text
}

// costText returns a cost, with the models that the table of rates lacks.
func costText(c agentbox.Cost) string {
	return costsText([]agentbox.Cost{c}) + unratedText([]agentbox.Cost{c})
}

// timelineEvents returns the lines of a timeline in the order of time: events recorded as they
// happened, and those known only afterwards. A denial appears once, at its first attempt, with the
// number of repetitions.
func timelineEvents(info api.TaskInfo) []api.TaskEvent {
	all := slices.Clone(info.Timeline)
	for _, a := range info.Task.Attempts {
		r := a.Result
		// A running attempt has no result yet; what is known of it is in Now.
		if r == nil {
			r = info.Now
		}
		if r == nil {
			continue
		}
		for _, d := range r.Denied {
			all = append(all, api.TaskEvent{Attempt: a.Number, Time: d.First, Event: "denied", Detail: denialText(d)})
		}
		for _, p := range r.Pressure {
			all = append(all, api.TaskEvent{Attempt: a.Number, Time: p.Time, Event: "pressure", Detail: pressureText(p)})
		}
	}
	slices.SortStableFunc(all, func(x, y api.TaskEvent) int { return x.Time.Compare(y.Time) })
	return all
}

// denialText says in one line what was tried, in the box's words, and why it was refused.
func denialText(d agentbox.Denial) string {
	text := d.What
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	if d.Count > 1 {
		text += fmt.Sprintf("; %d times until %s", d.Count, d.Last.Local().Format(time.TimeOnly))
	}
	return text
}

// evidenceRows says what prints that the last attempt left.
func evidenceRows(t agentbox.Task) (rows [][]string) {
	last := t.Last()
	if last == nil {
		return nil
	}
	rows = append(rows, []string{"output", "agentbox task logs " + t.ID.String()})
	if last.Result != nil {
		for _, name := range last.Result.Services {
			rows = append(rows, []string{"service log", fmt.Sprintf("agentbox task logs --service %s %s", name, t.ID)})
		}
	}
	return rows
}
