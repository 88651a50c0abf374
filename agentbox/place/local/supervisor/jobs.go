package supervisor

import (
	"context"
	"net/http"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/job"
	"agentbox/agentbox/place/local/control"
)

// keepJobs makes the hub of the box's jobs, which ends with ctx, and has the relay attach clients
// to jobs. Jobs that an earlier supervisor recorded go on in a restored machine, and are lost in a
// fresh one.
func (s *Supervisor) keepJobs(ctx context.Context, relay *environment.Relay, wg *sync.WaitGroup) {
	s.jobs = job.NewHub(ctx, job.Config{
		Dir: s.names.Jobs(), Backend: s.guest, Log: s.log, OnBegin: s.meter.addClient, OnOutput: s.meter.touch,
	})
	relay.Handle(environment.AttachChannel, s.jobs.Serve)
	wg.Go(s.jobs.Wait)
	wg.Go(func() {
		if err := s.jobs.Adopt(ctx, s.cfg.Saved != ""); err != nil && ctx.Err() == nil {
			s.log.Error("cannot adopt the jobs of the box", "error", err)
		}
	})
}

// handleJobs serves the calls about jobs that need the machine, not its files.
func (s *Supervisor) handleJobs(mux *http.ServeMux) {
	api.Handle(mux, control.StartJob, whenStarted(s, func(ctx context.Context, req agentbox.JobSpec) (api.JobStarted, error) {
		refused, err := s.jobs.Start(ctx, req)
		if err != nil || refused == nil {
			return api.JobStarted{ID: req.ID}, err
		}
		return api.JobStarted{ID: req.ID, Refused: &api.JobRefusal{Status: refused.Status, Reason: refused.Error}}, nil
	}))
	api.Handle(mux, control.WaitJob, whenStarted(s, func(ctx context.Context, id agentbox.JobID) (api.None, error) {
		return api.None{}, s.jobs.AwaitEnd(ctx, id)
	}))
	api.Handle(mux, control.SignalJob, whenStarted(s, func(ctx context.Context, req api.JobSignal) (api.None, error) {
		return api.None{}, s.jobs.Signal(ctx, req.ID, req.Signal)
	}))
}
