package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
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
