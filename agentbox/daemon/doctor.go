package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/doctor"
	"agentbox/agentbox/service"
)

// doctor adds the store, the team and the service to host/doctor's report.
func (d *daemon) doctor(ctx context.Context, req api.DoctorRequest, progress agentbox.Progress) (api.DoctorReport, error) {
	report, err := d.hostDoctor.Run(ctx, req, progress)
	if err != nil {
		return report, err
	}
	add := func(name, detail string, err error) {
		report.Checks = append(report.Checks, doctor.Result(name, detail, err))
	}
	detail, err := d.entries().Check(ctx)
	add("store", detail, err)
	detail, err = d.membership().Check(ctx)
	add("team", detail, err)
	if d.membership().InTeam() {
		detail, err = d.checkService(ctx)
		add("service", detail, err)
		add("others' tasks", leftOfOthers(d.store.OfOthers()), nil)
	}
	return report, nil
}

// leftOfOthers says what is here of tasks of other machines that have ended.
func leftOfOthers(all []agentbox.Task) string {
	waiting, boxes := 0, 0
	var last time.Time
	for _, t := range all {
		until := t.KeptUntil()
		switch {
		case until.IsZero():
			continue
		case t.Delivered:
			boxes++
		default:
			waiting++
		}
		if until.After(last) {
			last = until
		}
	}
	if waiting+boxes == 0 {
		return "of those that have ended here, nothing is left"
	}
	return fmt.Sprintf("%s for their owners, and %s what could not be sent; the last goes on %s (agentbox task ls --all)",
		agentbox.PluralOf(waiting, "result waits", "results wait"), agentbox.PluralOf(boxes, "box has", "boxes have"), last.Local().Format(time.DateOnly))
}

// resources returns what boxes may use of this machine.
func (d *daemon) resources(context.Context, api.None, agentbox.Progress) (api.Resources, error) {
	return d.boxes.Capacity.Report()
}

// checkService reports whether the team sees this machine while nobody is logged in. A missing
// service is no failure, because most machines of a team need not be visible at night.
func (d *daemon) checkService(ctx context.Context) (string, error) {
	st, err := service.Service{Binary: d.cfg.Client, Home: d.cfg.Home.Dir, Default: os.Getenv(home.EnvDir) == ""}.Status(ctx)
	switch {
	case err != nil:
		return "", err
	case st.Running && st.Persistent:
		return "the daemon runs also while nobody is logged in", nil
	case st.Manager == "":
		return "none: the team sees this machine after the first command of a login", nil
	}
	return "not installed: the team sees this machine after the first command of a login (agentbox service install)", nil
}
