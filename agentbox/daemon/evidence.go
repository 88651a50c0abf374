package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/cost"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/supervisor"
	"agentbox/agentbox/task"
	"agentbox/policy"
)

// evidence tells how the box of a task went: what it used, what it was refused, and what it wanted.
// The queue has it gather when an attempt ends, and `task show` asks it before. All of it is the
// supervisor's and the gateway's word; the box's own words are in it only as what was tried.
type evidence struct{ jobs }

// gatherWithin is how long a supervisor has for its last words. The attempt's result waits for it.
const gatherWithin = 5 * time.Second

// servicesDir has the logs of services, in the directory of an attempt. `task show` names the
// files.
const servicesDir = "services"

// Gather asks the supervisor, if it lives, for what it has not written down yet, and keeps the logs
// of services with the attempt. dir is the attempt's directory. What could be had is returned with
// the error.
func (w evidence) Gather(ctx context.Context, box agentbox.Box, dir string) (task.Evidence, error) {
	w.bringUpToDate(ctx, box)
	t, err := w.look(box)
	logs, logErr := keepLogs(w.home.Box(box.ID).ServiceLogs(), filepath.Join(dir, servicesDir))
	t.Services = logs
	return t, errors.Join(err, logErr)
}

// bringUpToDate asks the supervisor, if it lives, to write down what it knows. One that has ended
// did so before, and one that does not answer within gatherWithin is not waited for: what was
// written a moment ago is good enough.
func (w evidence) bringUpToDate(ctx context.Context, box agentbox.Box) {
	ctx, cancel := context.WithTimeout(ctx, gatherWithin)
	defer cancel()
	// Straight to the supervisor: the Manager would wake a box that has ended.
	client := api.NewClient(w.home.Box(box.ID).Control())
	defer client.Close()
	// One that has ended said it all before.
	_, _ = api.Call(ctx, client, api.SupervisorAccount, api.None{}, nil)
}

// spent is what a box has used until now, a quarter of a second ago at most, and what that costs.
// Without a table of rates there is no cost. Errors are joined, and what is known is returned with
// them.
func (w evidence) spent(box agentbox.Box) (task.Evidence, error) {
	account, err := supervisor.ReadAccount(w.home.Box(box.ID).Account())
	t := task.Evidence{Pressure: account.Pressure}
	if err == nil {
		t.Used = &account.Consumption
	}
	// The table is read for each account, so a change of it counts from the next look.
	rates, rateErr := cost.Load(w.home.Rates())
	if rates != nil && t.Used != nil {
		c := rates.Of(*t.Used)
		t.Cost = &c
	}
	return t, errors.Join(err, rateErr)
}

// look is what is known of a box now, without asking anybody: its account, and what its audit log
// says of refusals and limits.
func (w evidence) look(box agentbox.Box) (task.Evidence, error) {
	t, err := w.spent(box)
	var log refusals
	readErr := policy.Read(w.home.Audit(box.ID), log.see)
	t.Denied = log.denied
	t.Pressure = append(t.Pressure, log.limits...)
	// Two sources, the account and the log, each in order of time.
	slices.SortStableFunc(t.Pressure, func(x, y agentbox.Pressure) int { return x.Time.Compare(y.Time) })
	return t, errors.Join(err, readErr)
}

// Bounds of what a result names: a box may try as much as it likes.
const (
	maxDenied = 100 // that are told apart; the last one stands for all others
	maxLimits = 100
)

// refusals are the denied flows and the limits of an audit log. It is filled by reading a log from
// its beginning, in order.
type refusals struct {
	denied []agentbox.Denial
	limits []agentbox.Pressure
	at     map[string]int // in denied, by what they are
}

// see takes one entry. What was allowed, and entries about the log itself, are no refusals.
func (r *refusals) see(e policy.Entry) error {
	switch {
	case e.Kind == policy.KindLimit:
		if len(r.limits) < maxLimits {
			r.limits = append(r.limits, agentbox.Pressure{Time: e.Time, What: agentbox.PressureLimit, Detail: e.Reason})
		}
	case e.Allow || e.Kind == policy.KindPolicy || e.Kind == policy.KindRecovered || e.Kind == policy.KindStart:
	default:
		r.deny(e)
	}
	return nil
}

// deny counts a refusal. Requests to one place by one method are one, whatever their paths. The
// first is quoted: its path shows what was wanted.
func (r *refusals) deny(e policy.Entry) {
	if r.at == nil {
		r.at = map[string]int{}
	}
	key := fmt.Sprint(e.Proto, e.Method, cmp.Or(e.Name, e.Address), e.Port, e.Kind)
	i, known := r.at[key]
	if !known {
		// The last place stands for all that have none of their own.
		if i = len(r.denied); i >= maxDenied {
			i = maxDenied - 1
			r.denied[i].What, r.denied[i].Reason, r.denied[i].Hint = "others", "more than are told apart", ""
		} else {
			r.denied = append(r.denied, agentbox.Denial{First: e.Time, What: attemptText(e), Reason: e.Reason, Hint: e.Hint})
			r.at[key] = i
		}
	}
	r.denied[i].Count += max(e.Count, 1)
	r.denied[i].Last = e.Time
}

// attemptText says what was tried, as one would write it.
func attemptText(e policy.Entry) string {
	host := cmp.Or(e.Name, e.Address)
	if host == "" {
		return e.Kind // the network itself refused it: it leads nowhere
	}
	if e.Port != 0 {
		host = fmt.Sprintf("%s:%d", host, e.Port)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s%s", cmp.Or(e.Method, string(e.Proto)), host, e.Path))
}

// keepLogs copies the logs of services that a supervisor has left, and names the services. A name
// that does not end in .log, or begins with a dot, is a file that was being written. They were
// bounded when the supervisor took them.
func keepLogs(from, to string) (names []string, err error) {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = os.MkdirAll(to, 0o700)
	}
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, e := range entries {
		name, isLog := strings.CutSuffix(e.Name(), ".log")
		if !isLog || strings.HasPrefix(name, ".") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = durable.Replace(filepath.Join(to, e.Name()), b, 0o600)
		}
		if errs = append(errs, err); err == nil {
			names = append(names, name)
		}
	}
	return names, errors.Join(errs...)
}
