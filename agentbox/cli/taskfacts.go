package cli

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

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

// pressureText is what there was too little of, in one line.
func pressureText(p agentbox.Pressure) string {
	switch p.What {
	case agentbox.PressureLimit:
		return "limit reached: " + p.Detail
	case agentbox.PressureMemory:
		return fmt.Sprintf("out of memory: the box's kernel had ended %s by then", agentbox.Plural(p.Count, "process"))
	case agentbox.PressureProcesses:
		return fmt.Sprintf("too many processes: %s that had filled the box with them had been ended by then", agentbox.Plural(p.Count, "program"))
	case agentbox.PressureDisk:
		return "disk full: nothing to speak of is left of its " + p.Detail
	}
	return p.What + " " + p.Detail
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
