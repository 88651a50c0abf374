package cli

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// taskSum is what tasks that have something in common have used together, all attempts of each
// counted. Costs of different currencies stay apart.
type taskSum struct {
	By    string               `json:"by"` // what they have in common
	Tasks int                  `json:"tasks"`
	Used  agentbox.Consumption `json:"used"`
	Costs []agentbox.Cost      `json:"costs,omitempty"`
}

// taskGroups are what task ls --by sums by. A week is that of the submission, as ISO 8601 counts.
var taskGroups = map[string]func(agentbox.Task) string{
	"project": func(t agentbox.Task) string { return t.Project },
	"agent":   func(t agentbox.Task) string { return cmp.Or(t.Agent, "none") },
	"state":   func(t agentbox.Task) string { return string(t.State) },
	"week": func(t agentbox.Task) string {
		// The year is the week's, which may be another than the day's.
		year, week := t.Created.Local().ISOWeek()
		return fmt.Sprintf("%d-W%02d", year, week)
	},
}

// sumTasks sums tasks that by gives one name, in the order of these names. Those with the same name
// need not be neighbours in the list.
func sumTasks(all []agentbox.Task, by func(agentbox.Task) string) []taskSum {
	// Few groups, so they are searched one by one and keep their order until sorted.
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

// add counts a task in. One of which nothing was measured counts as a task and adds nothing.
func (s *taskSum) add(t agentbox.Task) {
	s.Tasks++
	if t.Used != nil {
		s.Used = s.Used.Plus(*t.Used)
	}
	for _, c := range t.Costs {
		s.Costs = agentbox.AddCost(s.Costs, c)
	}
}

// allTasks is the last line of a list of tasks; "" for none. It is the sum over the list, so that
// nobody has to add up a column.
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
	return strings.Join(parts, ", ") + unratedText(s.Costs)
}

// heldText is how much memory was held for how long, in GiB-seconds: a task of a second holds some
// hundredths of one.
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

// costsText is what things cost, "" where nobody knows.
func costsText(costs []agentbox.Cost) string {
	var parts []string
	for _, c := range costs {
		parts = append(parts, fmt.Sprintf("%.4f %s", c.Amount, c.Currency))
	}
	return strings.Join(parts, " + ")
}

// unratedText names models that costs are without.
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

// sumFacts are what tasks have used, summed by what they have in common, the word by. The sum below
// is over all of them. --json is a list of taskSum.
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

// tookOf is for how long the last attempt of a task went on, until now when it does still.
func tookOf(a agentbox.Attempt) time.Duration {
	if a.Result != nil {
		return a.Result.Ended.Sub(a.Started)
	}
	return time.Since(a.Started)
}

// usedRows say what an attempt has used, and what that costs where there is a table of rates. Names
// of models are a server's words. None where nothing could be measured.
func usedRows(r agentbox.Result) (rows [][]string) {
	u := r.Used
	if u == nil {
		return nil
	}
	rows = append(rows, []string{"used", fmt.Sprintf("cpu %s, memory %s GiB-s (%s at most), network %s in, %s out",
		tookText(u.CPU), heldText(u.Memory), bytesText(u.MemoryPeak), bytesText(u.In), bytesText(u.Out))})
	for _, name := range slices.Sorted(maps.Keys(u.Models)) {
		rows = append(rows, []string{"model", tokensText(name, u.Models[name])})
	}
	// Cost is absent without a table of rates, and 0 for a task that cost nothing.
	if r.Cost != nil {
		rows = append(rows, []string{"cost", costText(*r.Cost)})
	}
	return rows
}

// tokensText is what one model has counted, its caches only where it has any.
func tokensText(name string, t agentbox.Tokens) string {
	if name == "" {
		name = "unnamed"
	}
	text := fmt.Sprintf("%s: %s, %d tokens in, %d out", name, agentbox.Plural(int(t.Answers), "answer"), t.Input, t.Output)
	if t.CacheRead > 0 || t.CacheWrite > 0 {
		text += fmt.Sprintf(", %d read from and %d written to its cache", t.CacheRead, t.CacheWrite)
	}
	if t.Unsaid > 0 {
		text += fmt.Sprintf("; %d did not say what they used", t.Unsaid)
	}
	return text
}

// costText is a cost, with the models that the table of rates lacks.
func costText(c agentbox.Cost) string {
	return costsText([]agentbox.Cost{c}) + unratedText([]agentbox.Cost{c})
}

// timelineEvents are the lines of a timeline: what was written down as it happened, and what is
// known of it afterwards. They are in order of time. Of a denial only the first attempt has a place
// in it, with how often it was repeated.
func timelineEvents(info api.TaskInfo) []api.TaskMoment {
	all := slices.Clone(info.Timeline)
	for _, a := range info.Task.Attempts {
		r := a.Result
		// An attempt that goes on has no result yet, and what is known of it is in Now.
		if r == nil {
			r = info.Now
		}
		if r == nil {
			continue
		}
		for _, d := range r.Denied {
			all = append(all, api.TaskMoment{Attempt: a.Number, Time: d.First, What: "denied", Detail: denialText(d)})
		}
		for _, p := range r.Pressure {
			all = append(all, api.TaskMoment{Attempt: a.Number, Time: p.Time, What: "pressure", Detail: pressureText(p)})
		}
	}
	slices.SortStableFunc(all, func(x, y api.TaskMoment) int { return x.Time.Compare(y.Time) })
	return all
}

// denialText is a denial in one line: what was tried, by the box's words, and why it was refused.
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

// evidenceRows say where the files are that were kept of the last attempt: none for a task that has
// none.
func evidenceRows(info api.TaskInfo) (rows [][]string) {
	if info.Directory == "" {
		return nil
	}
	rows = append(rows, []string{"evidence", info.Directory})
	if last := info.Task.Last(); last.Result != nil {
		for _, name := range last.Result.Services {
			rows = append(rows, []string{"service log", filepath.Join(info.Directory, "services", name+".log")})
		}
	}
	return rows
}
