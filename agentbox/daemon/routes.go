package daemon

import (
	"context"
	"net/http"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host"
	"agentbox/agentbox/job/jobs"
	"agentbox/agentbox/lastbench"
	"agentbox/agentbox/project"
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/token"
)

// handler serves the whole API of the daemon, with one line for each call. To find out what a verb
// does, start here.
func (d *daemon) handler() http.Handler {
	mux, boxes := http.NewServeMux(), d.boxes
	mux.Handle("GET /metrics", d.metrics())
	// This machine.
	api.Handle(mux, api.Status, d.status)
	api.Handle(mux, api.Shutdown, d.shutdown)
	api.HandleDownload(mux, api.DaemonLog, d.log)
	api.Handle(mux, api.Doctor, d.doctor)
	api.HandleDownload(mux, api.Changes, d.changes.follow)
	api.Handle(mux, api.Prune, d.prune)
	api.Handle(mux, api.ShowResources, d.resources)
	api.Handle(mux, api.ListBenchmarks, func(context.Context, api.None, agentbox.Progress) ([]api.Benchmark, error) { return lastbench.All() })

	// Boxes. Most calls go straight to the Manager or a part of it. Those that may also mean a task
	// (diff, pull) look in the queue first.
	api.Handle(mux, api.Up, traced(d.export, "up", boxes.Up))
	api.Handle(mux, api.PlanUp, boxes.Plan)
	api.Handle(mux, api.ListBoxes, boxes.List)
	api.Handle(mux, api.ShowBox, boxes.Show)
	api.Handle(mux, api.Connect, traced(d.export, "enter", d.fleet.boxes.Connect))
	api.Handle(mux, api.Pause, traced(d.export, "pause", boxes.Pause))
	api.Handle(mux, api.Resume, traced(d.export, "resume", boxes.Resume))
	api.Handle(mux, api.Fork, traced(d.export, "fork", boxes.Fork))
	api.Handle(mux, api.Checkpoint, boxes.Checkpoint)
	api.Handle(mux, api.Rollback, boxes.Rollback)
	api.Handle(mux, api.Reset, traced(d.export, "reset", boxes.Reset))
	api.Handle(mux, api.Remove, boxes.Remove)
	api.Handle(mux, api.Forget, boxes.Forget)
	api.Handle(mux, api.Label, host.Label(boxes))
	api.Handle(mux, api.Bind, host.Bind(boxes))
	api.Handle(mux, api.Unsaved, boxes.Work.Unsaved)
	d.taskWork.Handle(mux)
	api.Handle(mux, api.OpenPort, d.fleet.boxes.OpenPort)
	api.Handle(mux, api.ClosePort, d.fleet.boxes.ClosePort)
	api.HandleTunnel(mux, api.BoxSSH, d.fleet.boxes.OpenSSH)
	api.HandleDownload(mux, api.BoxLog, boxes.Log)

	// Jobs, tasks, sources and snapshots register their own calls, each beside its code.
	jobs.Jobs{Home: d.cfg.Home, Boxes: boxes, There: d.fleet.boxes.Job}.Handle(mux)
	jobs.Inside{Jobs: d.jobs()}.Handle(mux)
	tokens{&token.Store{Path: d.cfg.Home.Tokens()}, boxes, d.tasks}.handle(mux)
	d.tasks.Handle(mux)
	d.artifacts.Handle(mux)
	api.Handle(mux, api.ScheduleTasks, d.schedules.Add)
	api.Handle(mux, api.ListSchedules, d.schedules.List)
	api.Handle(mux, api.RemoveSchedule, d.schedules.Remove)
	d.sources.Handle(mux)
	d.snapshots.Handle(mux)
	d.handover.Handle(mux)

	// What boxes may do.
	api.Handle(mux, api.ShowPolicy, sources.In(d.sources, boxes.Policies.Show))
	api.Handle(mux, api.CheckPolicy, sources.In(d.sources, boxes.Policies.Check))
	api.Handle(mux, api.ChangePolicy, sources.In(d.sources, boxes.Policies.Change))
	api.Handle(mux, api.ApprovePolicy, sources.In(d.sources, boxes.Policies.Approve))
	api.Handle(mux, api.FindAgent, sources.In(d.sources, d.findAgent))
	api.Handle(mux, api.KeepHistory, boxes.KeepHistory)
	api.Handle(mux, api.ListAgents, sources.In(d.sources, boxes.ListAgents))
	api.HandleDownload(mux, api.AuditLog, boxes.Policies.AuditLog)
	api.Handle(mux, api.VerifyAudit, boxes.Policies.VerifyAudit)
	api.Handle(mux, api.AddToolServer, sources.In(d.sources, d.tooling.add))
	api.Handle(mux, api.ListToolServers, sources.In(d.sources, d.tooling.list))
	api.Handle(mux, api.RemoveToolServer, sources.In(d.sources, d.tooling.remove))
	api.Handle(mux, api.LoginToolServer, sources.In(d.sources, d.tooling.login))
	api.Handle(mux, api.SetSecret, sources.In(d.sources, boxes.Policies.SetSecret))
	api.Handle(mux, api.BorrowSecret, d.lending().Borrow)
	api.Handle(mux, api.LendSecrets, d.clients.Lend)
	api.Handle(mux, api.ListSecrets, sources.In(d.sources, boxes.Policies.ListSecrets))
	api.Handle(mux, api.RemoveSecret, sources.In(d.sources, boxes.Policies.RemoveSecret))

	// Images. Supervisors call NeedImage for machines that wait.
	api.Handle(mux, api.BuildImage, sources.In(d.sources, boxes.Recipes.Build))
	api.Handle(mux, api.PullImage, boxes.Images.Pull)
	api.Handle(mux, api.ListImages, boxes.Images.List)
	api.Handle(mux, api.ShowImage, d.showImage)
	api.Handle(mux, api.RemoveImage, boxes.Images.Remove)
	api.Handle(mux, api.FetchImage, boxes.Images.Fetch)
	api.Handle(mux, api.ExportImage, boxes.Images.Export)
	api.Handle(mux, api.NeedImage, boxes.Images.Need)

	// The store, and the team.
	d.entries().Handle(mux)
	api.Handle(mux, api.DropBranch, d.dropBranch)
	d.membership().Handle(mux)
	api.Handle(mux, api.SetIdle, func(ctx context.Context, p api.IdlePolicy, progress agentbox.Progress) (api.IdleStatus, error) {
		defer d.fleet.worker.Wake.Notify()
		return d.idle().Set(ctx, p, progress)
	})
	api.Handle(mux, api.ShowIdle, d.idle().Show)
	return eachRemembering(d.changes.around(mux))
}

// eachRemembering has each request identify a checkout's project once.
func eachRemembering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(project.Remembering(r.Context())))
	})
}
