package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/cost"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/host"
	"agentbox/agentbox/job/jobs"
	"agentbox/agentbox/task"
	"agentbox/policy"
)

// Evidence collects how the box of a task did: what it used, what it was refused, and what it
// attempted. The queue calls Gather when an attempt ends, and `task show` looks at it before. All
// of it comes from the supervisor and the gateway. What the box controls appears only as the text
// of its attempts.
type Evidence struct {
	jobs.Jobs
	Origins host.Origins
}

// servicesDir has the logs of services, in the directory of an attempt. `task show` names them.
const servicesDir = "services"

// IdentityFile is what the box of an attempt was made of (identity.Document, not signed).
const IdentityFile = "identity.json"

// Gather asks a running supervisor to write down what it has not written yet, and copies the logs
// of services to dir, the attempt's directory. If it fails partly, it returns what it got together
// with the error.
func (e Evidence) Gather(ctx context.Context, box agentbox.Box, dir string) (task.Evidence, error) {
	e.Records().UpdateAccount(ctx, box.ID)
	t, err := e.read(box)
	logs, logErr := e.Records().CopyServiceLogs(box.ID, filepath.Join(dir, servicesDir))
	t.Services = logs
	made, identityErr := e.Origins.Identity(ctx, api.BoxRef{Box: box.ID.String()})
	if identityErr == nil {
		identityErr = durable.WriteJSON(filepath.Join(dir, IdentityFile), made, 0o600)
	}
	return t, errors.Join(err, logErr, identityErr)
}

// usage returns what a box has used, at most a quarter of a second ago, and what that costs.
// Without a table of rates there is no cost. Errors are joined and returned with what is known.
func (e Evidence) usage(box agentbox.Box) (task.Evidence, error) {
	used, pressure, err := e.Records().Account(box.ID)
	t := task.Evidence{Pressure: pressure}
	if err == nil {
		t.Used = &used
	}
	// The table is read for each account, so that a change takes effect at once.
	rates, rateErr := cost.Load(e.Home.Rates())
	if rates != nil && t.Used != nil {
		c := rates.Cost(*t.Used)
		t.Cost = &c
	}
	return t, errors.Join(err, rateErr)
}

// read returns what is known of a box now without contacting its supervisor: its account, and the
// refusals and limits in its audit log.
func (e Evidence) read(box agentbox.Box) (task.Evidence, error) {
	t, err := e.usage(box)
	var log refusals
	readErr := policy.Read(e.Home.Audit(box.ID), log.add)
	t.Denied = log.denied
	t.Pressure = append(t.Pressure, log.limits...)
	// The account and the log are each in order of time, but their union is not.
	slices.SortStableFunc(t.Pressure, func(x, y agentbox.Pressure) int { return x.Time.Compare(y.Time) })
	return t, errors.Join(err, readErr)
}

// Bounds on what a result lists, since a box may attempt as much as it likes.
const (
	maxDenied = 100 // distinct refusals; the last one stands for all others
	maxLimits = 100
)

// refusals are the denied flows and the reached limits of an audit log. To fill it, read a log from
// its beginning, in order.
type refusals struct {
	denied []agentbox.Denial
	limits []agentbox.Pressure
	index  map[string]int // index into denied by identity
}

// add adds one entry. It ignores what was allowed, and entries about the log itself.
func (r *refusals) add(e policy.Entry) error {
	switch {
	case e.Kind == policy.KindLimit:
		if len(r.limits) < maxLimits {
			r.limits = append(r.limits, agentbox.Pressure{Time: e.Time, What: agentbox.PressureLimit, Detail: e.Reason})
		}
	case e.Allow || e.Kind == policy.KindPolicy || e.Kind == policy.KindRecovered || e.Kind == policy.KindStart:
	default:
		r.addDenied(e)
	}
	return nil
}

// addDenied counts a refusal. Requests to one host by one method count as one refusal, whatever
// their paths. The first is quoted, because its path shows what the box wanted.
func (r *refusals) addDenied(e policy.Entry) {
	if r.index == nil {
		r.index = map[string]int{}
	}
	key := fmt.Sprint(e.Proto, e.Method, cmp.Or(e.Name, e.Address), e.Port, e.Kind)
	i, known := r.index[key]
	if !known {
		// The last entry stands for all that have none of their own.
		if i = len(r.denied); i >= maxDenied {
			i = maxDenied - 1
			r.denied[i].What, r.denied[i].Reason, r.denied[i].Hint = "others", "more than are told apart", ""
		} else {
			r.denied = append(r.denied, agentbox.Denial{First: e.Time, What: attemptText(e), Host: e.Name, Reason: e.Reason, Hint: e.Hint})
			r.index[key] = i
		}
	}
	r.denied[i].Count += max(e.Count, 1)
	r.denied[i].Last = e.Time
}

// attemptText describes what was attempted in the usual notation.
func attemptText(e policy.Entry) string {
	host := cmp.Or(e.Name, e.Address)
	if host == "" {
		return e.Kind // refused by the network itself
	}
	if e.Port != 0 {
		host = fmt.Sprintf("%s:%d", host, e.Port)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s%s", cmp.Or(e.Method, string(e.Proto)), host, e.Path))
}
