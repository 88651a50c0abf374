package handover

import (
	"context"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/identity"
	"agentbox/agentbox/job/jobs"
	"agentbox/agentbox/source/sources"
)

// reportSeconds bounds the script that says what a box is.
const reportSeconds = 120

// check is api.CheckIdentity. What it finds is kept for stats.
func (h *Handover) check(ctx context.Context, req api.IdentityCheck, progress agentbox.Progress) ([]identity.Difference, error) {
	ci, err := identity.ParseReport(strings.NewReader(req.Report))
	if err != nil {
		return nil, err
	}
	b, err := h.Boxes.Find(ctx, req.BoxRef)
	if err != nil {
		return nil, err
	}
	run := api.RunRequest{BoxRef: api.BoxRef{Box: b.ID.String()}, Script: identity.Script(ci.Lockfiles()), Seconds: reportSeconds}
	ran, err := jobs.Inside{Jobs: jobs.Jobs{Home: h.Home, Boxes: h.Boxes}}.Run(ctx, run, progress)
	if err != nil {
		return nil, err
	}
	here, err := identity.ParseReport(strings.NewReader(ran.Stdout))
	if err != nil {
		return nil, err
	}
	all := append([]identity.Difference{}, ci.Diff(here)...)
	one := identity.Check{Time: time.Now().UTC(), Project: b.Project, Box: b.ID.String(), Task: req.Task, Commit: ci["commit"]["HEAD"]}
	if one.Task == "" {
		one.Task = h.taskIn(b.Name)
	}
	for _, d := range all {
		one.Differs = append(one.Differs, identity.Point{What: d.What, Name: d.Name})
	}
	return all, h.seen.Add(one)
}

// taskIn is the task that runs in a box, "" for none.
func (h *Handover) taskIn(box string) string {
	for _, t := range h.Queue.Open() {
		if last := t.Last(); last != nil && last.BoxName == box {
			return t.ID.String()
		}
	}
	return ""
}

// stats is api.IdentityStats.
func (h *Handover) stats(ctx context.Context, req api.TaskList, _ agentbox.Progress) (identity.Stats, error) {
	name := ""
	if p, err := sources.ProjectOf(ctx, req.Directory); err == nil && !req.All {
		name = p.Name
	}
	all, err := h.seen.Since(req.Since, name)
	return identity.Sum(all), err
}
