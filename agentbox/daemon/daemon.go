package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/check"
	"agentbox/agentbox/contexts/handover"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/fleet/elsewhere"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host"
	"agentbox/agentbox/host/doctor"
	"agentbox/agentbox/idle"
	"agentbox/agentbox/job/jobs"
	"agentbox/agentbox/layers"
	"agentbox/agentbox/layers/entries"
	"agentbox/agentbox/lending"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local"
	"agentbox/agentbox/place/local/drivers"
	"agentbox/agentbox/place/local/templates"
	"agentbox/agentbox/place/ssh"
	"agentbox/agentbox/source"
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/task"
	"agentbox/agentbox/task/schedule"
	"agentbox/agentbox/task/tasks"
	"agentbox/agentbox/team/membership"
	"agentbox/agentbox/telemetry"
	"agentbox/vmm"
	"agentbox/vmm/image"
)

// Config configures a daemon. It is read once.
type Config struct {
	Home    home.Home
	Client  string // path of the program that users run, from which this daemon came
	Version string // identifies that program's build
	Pool    int    // machines kept ready per key (Box.Template); -1 chooses a size for this machine
	Log     *slog.Logger
}

// ErrRunning means that another daemon serves this home. The command line reports it by an exit
// code of its own, and waits for that daemon.
var ErrRunning = errors.New("a daemon already serves this home")

// daemon is one running daemon: the parts that Run has assembled, for use by the handlers. It does
// not change after that and needs no lock. The parts do their own locking.
type daemon struct {
	cfg       Config
	started   time.Time
	boxes     *host.Manager
	shares    *shares // what boxes are made of, and what the team may have
	queue     *task.Queue
	store     task.Store // the queue's
	sources   sources.Sources
	snapshots sources.Snapshots
	saves     tasks.Saves
	tasks     tasks.Tasks
	taskWork  tasks.Work
	schedules *schedule.Timetable
	stop      context.CancelFunc
	ctx       context.Context // ends with the daemon
	fleet     fleetParts
	handover  *handover.Handover
	sleeping  atomic.Bool // this machine is about to sleep
	meter     idle.Meter  // of what it does by itself
	changes   *changes

	artifacts  tasks.Artifacts
	checks     tasks.Checks
	hostDoctor doctor.Doctor
	tooling    tools
	clients    *lending.Clients
	export     *telemetry.Exporter // nil: nobody collects
}

// Run serves until ctx ends or a client asks it to stop. Boxes go on without it. It returns
// ErrRunning if another daemon serves the home.
//
// The socket opens last, so that everything is ready for a client that connects. Shutdown is in
// reverse order, and everything that was started has ended when Run returns.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Home.Create(); err != nil {
		return err
	}
	lock, err := acquire(cfg.Home.Lock())
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d, err := assemble(ctx, cfg)
	if err != nil {
		return err
	}
	d.stop = stop
	var work sync.WaitGroup
	work.Go(d.queue.Run)
	work.Go(func() { d.shares.team.Run(ctx) })
	work.Go(func() { d.keepMachines(ctx) })
	work.Go(func() { d.keepSources(ctx) })
	work.Go(func() { d.sweepSaves(ctx) })
	work.Go(func() { d.schedules.Run(ctx) })
	work.Go(func() { d.export.Run(ctx, d.gather) })
	work.Go(func() { d.fleet.worker.Run(ctx) })
	work.Go(func() { d.watcher().Run(ctx) })
	work.Go(func() { d.handover.Copies.Run(ctx) })
	work.Go(func() { d.handover.Ahead.Run(ctx) })
	work.Go(func() { d.handover.SettleArrivals(ctx) })
	work.Go(func() { d.tooling.serve(ctx, cfg.Home.ToolsSocket(), cfg.Log) })
	work.Go(func() { releaseMemory(ctx, releaseEvery) })
	scrubbed := d.scrub(ctx)
	// The metrics come before the socket, so that a wrong address is an error at start.
	metrics, err := listenMetrics()
	if err == nil {
		if metrics != nil {
			work.Go(func() { serveMetrics(ctx, metrics, d.metrics(), cfg.Log) })
		}
		if err = d.clients.Open(ctx); err == nil {
			cfg.Log.Info("daemon started", "version", cfg.Version, "process", os.Getpid())
			err = d.serve(ctx)
		}
	}
	d.clients.Close()
	stop()
	work.Wait()
	err = errors.Join(err, d.boxes.Close())
	<-scrubbed
	return errors.Join(err, d.shares.close())
}

// assemble creates the parts of a daemon in the order of their dependencies: the store of images
// and the team, from which boxes are made; the boxes, which adopts those that run; and the queue of
// tasks, which needs the boxes. The caller holds the home's lock. On failure nothing stays open.
func assemble(ctx context.Context, cfg Config) (*daemon, error) {
	store, err := image.Open(ctx, cfg.Home.Images())
	if err != nil {
		return nil, err
	}
	// A repository must not copy the home into an image by an include: it contains secrets and
	// other boxes.
	store.Excluded = []string{cfg.Home.Dir, cfg.Home.Run()}
	shared, err := share(ctx, cfg, store)
	if err != nil {
		return nil, err
	}
	hosting, err := hostConfig(cfg, store, shared)
	if err != nil {
		return nil, errors.Join(err, shared.close())
	}
	if hosting.Sources, err = source.OpenStore(cfg.Home.Sources()); err != nil {
		return nil, errors.Join(err, shared.close())
	}
	changes := new(changes)
	hosting.Changed = changes.Announce
	manager, err := host.New(hosting)
	if err != nil {
		return nil, errors.Join(err, shared.close())
	}
	export, err := telemetry.FromEnvironment(os.Getenv, cfg.Version, cfg.Log)
	if err != nil {
		cfg.Log.Error("nothing is sent to a collector of OpenTelemetry", "error", err)
	}
	d := &daemon{cfg: cfg, export: export, started: time.Now(), boxes: manager, shares: shared, sources: sources.Sources{Store: hosting.Sources}, changes: changes}
	d.hostDoctor = doctor.Doctor{
		Dir: cfg.Home.Dir, Chooser: manager.Kinds(), Kernel: hosting.Kernel, Resources: manager.Capacity.Report, Boxes: manager.Count,
	}
	d.store = task.Store{Dir: cfg.Home.Tasks(), Memory: new(task.Memory)}
	d.snapshots = sources.Snapshots{Snapshots: layers.Snapshots{Store: shared.store.Store}, Boxes: manager.Work, Sources: d.sources, Secrets: manager.Policies.SecretValues}
	d.saves = tasks.Saves{Home: cfg.Home, Log: cfg.Log, Snapshots: d.snapshots}
	d.artifacts = tasks.Artifacts{Jobs: d.jobs(), Key: shared.key, Store: d.store}
	checker, err := program(home.CheckProgram)
	if err != nil {
		return nil, errors.Join(err, manager.Close(), shared.close())
	}
	d.checks = tasks.Checks{Home: cfg.Home, Runner: check.Runner{Program: checker, Dir: cfg.Home.Checks(), Spares: &check.Spares{}}}
	d.clients = &lending.Clients{Home: cfg.Home, Log: cfg.Log, Policies: manager.Policies}
	d.ctx = ctx
	d.fleet = d.newFleet()
	clusters, err := d.newKube()
	if err != nil {
		return nil, errors.Join(err, manager.Close(), shared.close())
	}
	d.queue = task.NewQueue(ctx, task.Config{
		Store: d.store, Boxes: manager, Jobs: tasks.QueueJobs{Jobs: d.jobs()}, Snapshotter: tasks.Snapshotter{Jobs: d.jobs()}, Collector: d.artifacts, Evidence: d.evidence(), Checker: d.checks,
		Saver: d.saves, SaveEvery: tasks.SaveEvery(), Remote: remotes{d.fleet.owner, clusters}, HasRoom: manager.Capacity.HasRoom, Changed: func() {
			changes.Announce()
			d.fleet.worker.Wake.Notify() // what runs here for others may have ended
		},
		CostSoFar: func(ctx context.Context, t agentbox.Task) []agentbox.Cost {
			d.tasks.AddRunningUsage(ctx, &t)
			return t.Costs
		}, Log: cfg.Log,
	})
	d.tasks = d.newTasks()
	d.taskWork = tasks.Work{Tasks: d.tasks, Boxes: manager.Work}
	d.handover = handover.New(handover.Parts{
		Home: cfg.Home, Log: cfg.Log, Key: shared.key, Team: shared.team, Mesh: shared.mesh, Peers: d.peers(), Remotes: shared.remotes, Results: shared.results, Boxes: manager, Queue: d.queue,
		Work: d.taskWork, Snapshots: d.snapshots, Sources: d.sources, Fleet: d.fleet.owner, Elsewhere: d.fleet.boxes, Changed: changes.Changed,
		Busy: func(ctx context.Context) ([]api.IdleReason, error) {
			s, err := d.idle().Status(ctx)
			return s.Busy, err
		},
	})
	shared.contexts.Store(d.handover.Owner)
	d.serveFleet()
	d.schedules = d.newSchedules()
	d.tooling = d.newTools()
	if d.export != nil {
		d.queue.Ended = d.traceTask
	}
	// The team existed before the boxes. It now learns what to announce about them, and how to drop
	// what is no longer trusted.
	shared.team.DropImage, shared.team.Contexts, shared.team.DropMachines = manager.Images.Drop, d.handover.Contexts, d.dropMachines
	shared.inUse.Store(manager.Images)
	manager.Images.StoreNow() // the machine may have been in a team before
	return d, nil
}

// hostConfig returns the configuration for boxes: the program that git remotes run, and the places,
// whose drivers are each opened once.
func hostConfig(cfg Config, images *image.Store, shared *shares) (host.Config, error) {
	supervisor, err := program(home.SupervisorProgram)
	kernels := drivers.NewKernels(cfg.Home, cfg.Log)
	kernels.Team = shared.team
	open := func(parts host.PlaceParts) (host.Places, error) {
		l := &local.Local{
			Home: cfg.Home, Program: supervisor, Driver: cacheDrivers(kernels.Open),
			Images: parts.Images, Context: parts.Context, Go: parts.Go, Log: cfg.Log,
		}
		var err error
		l.Templates, err = templates.New(templates.Config{Home: cfg.Home, Driver: l.Driver, Images: parts.Images, Team: shared.team, Log: cfg.Log})
		elsewhere := &ssh.Kind{Home: cfg.Home, Log: cfg.Log}
		kind := func(of agentbox.Isolation) (place.Kind, error) {
			if of == agentbox.SSH {
				return elsewhere, nil
			}
			return l.Kind(of)
		}
		return host.Places{Kind: kind, Discard: l.Discard, OpenLog: local.Records{Home: cfg.Home}.OpenLog, Templates: l.Templates}, err
	}
	return host.Config{
		Home: cfg.Home, Client: cfg.Client, Images: images, Results: shared.results, ChunkStore: chunkStore{shared.images}, Team: shared.team, Pool: cfg.Pool, Log: cfg.Log,
		Places: open,
		Kernel: kernels.Dir,
		Yield:  idle.Settings{File: cfg.Home.Idle()}.Yield,
	}, err
}

// program is the path of a program that lies beside the daemon's.
func program(name string) (string, error) {
	self, err := os.Executable()
	return filepath.Join(filepath.Dir(self), name), err
}

// entries, membership, evidence, jobs and peers are views without state, new for each use.
func (d *daemon) entries() entries.Entries {
	return entries.Entries{Store: d.shares.store.Store, Sharing: d.shares.sharing, Remotes: d.shares.remotes}
}

func (d *daemon) membership() membership.Membership {
	return membership.Membership{
		Mesh: d.shares.mesh, Err: d.shares.noMesh, Team: d.shares.team, BlobName: d.entries().NameOf, Ready: d.handover.Ahead.Ready,
		Joined: d.boxes.Policies.LookAhead,
	}
}

func (d *daemon) evidence() tasks.Evidence {
	return tasks.Evidence{Jobs: d.jobs(), Origins: host.OriginsOf(d.boxes)}
}

func (d *daemon) jobs() jobs.Jobs { return jobs.Jobs{Home: d.cfg.Home, Boxes: d.boxes} }

func (d *daemon) peers() elsewhere.Team {
	return elsewhere.Team{Mesh: d.shares.mesh, Team: d.shares.team}
}

func (d *daemon) newTasks() tasks.Tasks {
	t := tasks.Tasks{Queue: d.queue, Boxes: d.boxes, Evidence: d.evidence(), Sources: d.sources, Checks: d.checks, CanLend: d.lending().CanLend, Elsewhere: d.fleet.boxes}
	if m := d.shares.mesh; m != nil {
		t.FindPeer = func(name string) (string, error) {
			member, err := m.Find(name)
			return member.ID.String(), err
		}
	}
	return t
}

func (d *daemon) idle() idle.Settings {
	return idle.Settings{File: d.cfg.Home.Idle(), Running: d.fleet.worker.Running, Sleeping: d.sleeping.Load, Meter: &d.meter}
}

func (d *daemon) newSchedules() *schedule.Timetable {
	t := schedule.New()
	t.Dir, t.Log = d.cfg.Home.Schedules(), d.cfg.Log
	t.Submit = func(ctx context.Context, req api.TaskSubmission) ([]agentbox.Task, error) {
		return d.tasks.Submit(ctx, req, nil)
	}
	t.Tasks = func() []agentbox.Task {
		all, _ := d.queue.Store.List() // a task that cannot be read was submitted long ago
		return all
	}
	return t
}

// cacheDrivers opens each driver only once, because drivers cache what they have found out.
func cacheDrivers(open func(agentbox.Isolation) (vmm.Driver, error)) func(agentbox.Isolation) (vmm.Driver, error) {
	var mu sync.Mutex
	opened := map[agentbox.Isolation]vmm.Driver{}
	return func(kind agentbox.Isolation) (vmm.Driver, error) {
		mu.Lock()
		defer mu.Unlock()
		if d, ok := opened[kind]; ok {
			return d, nil
		}
		d, err := open(kind)
		if err == nil {
			opened[kind] = d
		}
		return d, err
	}
}

// acquire takes the lock that makes this the only daemon of the home. It is held until the file is
// closed, which the kernel does for a process that is killed.
func acquire(path string) (*os.File, error) {
	f, err := durable.TryLock(path)
	if errors.Is(err, durable.ErrHeld) {
		return nil, fmt.Errorf("%w: %s is held", ErrRunning, path)
	}
	return f, err
}

// serve serves the socket until ctx ends. Requests that are under way then get shutdownGrace, and
// no new ones are accepted.
func (d *daemon) serve(ctx context.Context) error {
	l, err := api.Listen(d.cfg.Home.Socket())
	if err != nil {
		return err
	}
	// Requests are cancelled with the daemon, so that those that wait do not delay it.
	server := &http.Server{Handler: d.handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		// Operations under way may finish what takes little time. The next daemon rolls back the
		// rest.
		grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
		defer cancel()
		err = server.Shutdown(grace)
		<-served
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// shutdownGrace is how long calls under way may take when the daemon stops. The next daemon rolls
// back what is unfinished, which costs only time.
const shutdownGrace = 10 * time.Second

// status is what the command line asks first, so it must be quick: it looks at nothing but memory.
func (d *daemon) status(context.Context, api.None, agentbox.Progress) (api.DaemonStatus, error) {
	boxes, pool, _ := d.boxes.Count()
	return api.DaemonStatus{
		Version: d.cfg.Version, PID: os.Getpid(), Started: d.started, Home: d.cfg.Home.Dir, Boxes: boxes, Pool: pool,
	}, nil
}

func (d *daemon) log(ctx context.Context, req api.LogRequest, w io.Writer) error {
	f, err := os.Open(d.cfg.Home.Log())
	if err != nil {
		return agentbox.Errorf(agentbox.NotFound, "this daemon writes no log of its own: %w", err)
	}
	defer f.Close()
	return environment.Tail(ctx, f, req.Last(), req.Follow, w)
}

// shutdown has the daemon stop. The answer is still sent: serve waits for calls under way.
func (d *daemon) shutdown(context.Context, api.None, agentbox.Progress) (api.None, error) {
	d.stop()
	return api.None{}, nil
}
