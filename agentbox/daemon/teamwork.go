package daemon

import (
	"context"
	"encoding/json"
	"io"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/fleet/elsewhere"
	"agentbox/agentbox/lending"
	"agentbox/agentbox/task"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// fleetParts are this machine's two parts: it owns tasks that others run, and runs those of others.
type fleetParts struct {
	owner  *fleet.Owner
	worker *fleet.Worker
	boxes  *elsewhere.Boxes
}

// newFleet makes them. serveFleet completes them when there is a queue.
func (d *daemon) newFleet() fleetParts {
	peers := d.peers()
	wake := background.NewSignal()
	changed := func() {
		d.shares.team.Notify()
		d.changes.Announce()
	}
	p := fleetParts{
		owner: &fleet.Owner{
			Sources: d.sources, Accept: d.acceptResult, Save: d.saves.Accept, Continue: d.saves.Continue, Drop: d.saves.Drop,
			Lend: func(ctx context.Context, t agentbox.Task) (json.RawMessage, error) { return d.lending().Lend(ctx, t) },
			Value: func(ctx context.Context, t agentbox.Task, name string) (string, error) {
				return d.lending().LentValue(ctx, t, name)
			},
			Over: d.attemptOver, Here: peers.Here, Name: peers.Name, Changed: changed, Log: d.cfg.Log,
		},
		worker: &fleet.Worker{
			Team: peers, Log: d.cfg.Log, Wake: wake, Changed: changed,
			Admit: func(ctx context.Context, member identity.PeerID, name string) (fleet.Entrance, error) {
				return d.handover.Admit(ctx, member, name)
			},
		},
	}
	d.shares.team.News = func() {
		wake.Notify()
		d.changes.Announce()
	}
	d.shares.team.Offers = func() []catalogue.Record { return append(p.worker.Record(), p.owner.Offers()...) }
	p.owner.Call = func(worker identity.PeerID, id agentbox.TaskID, attempt int) {
		go func() { _ = p.boxes.Call(d.ctx, worker, id, attempt) }() // it is called again
	}
	p.boxes = &elsewhere.Boxes{
		Boxes: fleet.Boxes{Owner: p.owner, Dial: func(ctx context.Context, peer identity.PeerID) (*wire.Conn, error) {
			return peers.DialService(ctx, peer, fleet.BoxService)
		}},
		Ctx: d.ctx, Here: d.boxes, Store: d.store, Team: peers, Saves: d.saves, Worker: p.worker, File: d.cfg.Home.Entered(),
	}
	return p
}

// serveFleet gives the worker this machine, and lets members ask both parts.
func (d *daemon) serveFleet() {
	d.fleet.worker.Local = elsewhere.Local{
		Ctx: d.ctx, Boxes: d.boxes, Queue: d.queue, NewTasks: d.tasks.Submit, Work: d.taskWork, Saves: d.saves, Sources: d.sources, Settings: d.idle, Team: d.peers(), Elsewhere: d.fleet.boxes,
	}
	d.shares.team.Serve(fleet.Service, d.fleet.owner.Serve)
	d.shares.team.Serve(fleet.BoxService, d.fleet.worker.Serve)
}

// acceptResult also runs the checks of a task, whose modules are approved where it was submitted.
func (d *daemon) acceptResult(ctx context.Context, t agentbox.Task, said agentbox.Result, pack io.Reader) (agentbox.Result, error) {
	r, err := d.saves.AcceptResult(ctx, t, said, pack)
	if err == nil && r.Ref != "" && len(t.Checks) > 0 && t.For == nil {
		r.Checks = d.checks.Check(ctx, t, task.Kept{Ref: r.Ref, Commit: r.Commit})
		err = ctx.Err()
	}
	return r, err
}

// attemptOver tells whether nobody waits for the result of an attempt of a task of this machine.
func (d *daemon) attemptOver(id agentbox.TaskID, attempt int) bool {
	t, err := d.store.Read(id)
	if err != nil {
		return agentbox.CodeOf(err) == agentbox.NotFound
	}
	return t.State.Done() || attempt < 1 || attempt > len(t.Attempts) || t.Attempts[attempt-1].Result != nil
}

func (d *daemon) lending() lending.Lending {
	return lending.Lending{Policies: d.boxes.Policies, Boxes: d.boxes, Store: d.store, Worker: d.fleet.worker, Clients: d.clients}
}
