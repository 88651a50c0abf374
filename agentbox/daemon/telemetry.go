package daemon

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/telemetry"
)

// traced sends a span of each call of f, and of each step that it tells of, if anybody collects.
func traced[Req, Resp any](e *telemetry.Exporter, name string, f api.Func[Req, Resp]) api.Func[Req, Resp] {
	if e == nil {
		return f
	}
	return func(ctx context.Context, req Req, progress agentbox.Progress) (Resp, error) {
		s := telemetry.Span{Name: name, Start: time.Now(), Attributes: map[string]any{}}
		rand.Read(s.Trace[:])
		rand.Read(s.ID[:])
		resp, err := f(ctx, req, func(event agentbox.Event) {
			if event.Ended {
				e.Add(stepOf(s, event))
			}
			if progress != nil {
				progress(event)
			}
		})
		s.End = time.Now()
		if err != nil {
			e := agentbox.AsError(err)
			s.Err, s.Attributes["error.type"] = e.Message, string(e.Code)
		} else {
			describe(s.Attributes, resp)
		}
		e.Add(s)
		return resp, err
	}
}

func stepOf(s telemetry.Span, event agentbox.Event) telemetry.Span {
	end := time.Now()
	step := telemetry.Span{Trace: s.Trace, Parent: s.ID, Name: s.Name + "." + event.Step, Start: end.Add(-event.Took), End: end}
	rand.Read(step.ID[:])
	step.Attributes = map[string]any{"agentbox.detail": agentbox.Clip(agentbox.Printable(event.Detail))}
	return step
}

func describe(to map[string]any, resp any) {
	switch r := resp.(type) {
	case api.UpResponse:
		describe(to, r.Box)
		to["agentbox.created"] = r.Created
	case agentbox.Box:
		to["agentbox.box.id"], to["agentbox.box.name"], to["agentbox.isolation"] = r.ID.String(), r.Name, string(r.Isolation)
	case api.Connection:
		to["agentbox.box.id"], to["agentbox.box.name"] = r.Box.String(), r.Name
	}
}

// traceTask sends the trace of an attempt that has ended: of the whole, a span of each step that took
// time, and an event of each host that the policy denied. Its ID follows from the task and the
// attempt, so that who knows these finds it.
func (d *daemon) traceTask(id agentbox.TaskID, n int) {
	t, err := d.queue.Store.Read(id)
	last := t.Last()
	if err != nil || last == nil || last.Number != n || last.Result == nil {
		d.cfg.Log.Warn("cannot trace a task", "task", id, "error", err)
		return
	}
	root, r := telemetry.Span{Name: "task", Start: last.Started, End: last.Result.Ended}, last.Result
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", id, n))
	copy(root.Trace[:], sum[:])
	copy(root.ID[:], sum[16:])
	root.Attributes = map[string]any{
		"agentbox.task.id": id.String(), "agentbox.task.attempt": n, "agentbox.task.state": string(r.State), "agentbox.agent": t.Agent,
		"agentbox.box.name": last.BoxName, "agentbox.commits": r.Commits, "agentbox.files": r.Files,
	}
	if r.Exit != nil {
		root.Attributes["agentbox.exit"] = *r.Exit
	}
	if r.State != agentbox.TaskSucceeded {
		root.Err = r.Reason
	}
	for _, denied := range r.Denied {
		root.Events = append(root.Events, telemetry.Event{Time: denied.First, Name: "policy.denied", Attributes: map[string]any{
			"agentbox.denied.what": agentbox.Clip(agentbox.Printable(denied.What)), "agentbox.denied.reason": denied.Reason, "agentbox.denied.count": denied.Count,
		}})
	}
	steps, _ := d.queue.Store.Timeline(id, n) // without it, there is the whole
	for i, step := range steps {
		span := telemetry.Span{Trace: root.Trace, Parent: root.ID, Name: "task." + step.What, Start: step.Time.Add(-step.Took), End: step.Time}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", id, n, i))
		copy(span.ID[:], sum[:])
		span.Attributes = map[string]any{"agentbox.task.id": id.String(), "agentbox.detail": agentbox.Clip(agentbox.Printable(step.Detail))}
		d.export.Add(span)
	}
	d.export.Add(root)
}

func (d *daemon) gather() []telemetry.Metric {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{d})
	families, err := registry.Gather()
	if err != nil {
		d.cfg.Log.Warn("cannot gather metrics", "error", err)
	}
	var out []telemetry.Metric
	for _, f := range families {
		for _, m := range f.GetMetric() {
			v := telemetry.Metric{Name: f.GetName(), Help: f.GetHelp(), Counter: m.Counter != nil, Value: m.GetGauge().GetValue() + m.GetCounter().GetValue(), Attributes: map[string]any{}}
			for _, label := range m.GetLabel() {
				v.Attributes[label.GetName()] = label.GetValue()
			}
			out = append(out, v)
		}
	}
	return out
}
