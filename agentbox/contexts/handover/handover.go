package handover

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/contexts"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/fleet/elsewhere"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host"
	"agentbox/agentbox/identity"
	"agentbox/agentbox/layers"
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/task"
	"agentbox/agentbox/task/tasks"
	"agentbox/agentbox/team"
	"agentbox/mesh"
	peers "agentbox/mesh/identity"
)

// Handover says what boxes and tasks are (package identity), hands them to members who may enter them,
// and brings those of others here.
type Handover struct {
	Parts
	Owner  *contexts.Owner
	cache  sharedCache
	seen   *identity.Checks
	Copies *copies
	Ahead  *ahead
	live   *contexts.LiveOwner
	going  going

	pushing sync.Mutex // held while work is taken
}

// Parts are what a handover is made of.
type Parts struct {
	Home      home.Home
	Log       *slog.Logger
	Key       ed25519.PrivateKey // the host's, which signs identities
	Team      *team.Team
	Mesh      *mesh.Mesh // nil without one
	Peers     elsewhere.Team
	Remotes   *layers.Remotes
	Results   layers.SetupResults
	Boxes     *host.Manager
	Queue     *task.Queue
	Work      tasks.Work
	Snapshots sources.Snapshots
	Sources   sources.Sources
	Fleet     *fleet.Owner
	Elsewhere *elsewhere.Boxes
	Changed   func() <-chan struct{}                          // closed when boxes or tasks may have changed
	Busy      func(context.Context) ([]api.IdleReason, error) // why what can wait has to
}

// New serves the team; Copies.Run, Ahead.Run and SettleArrivals have to run beside it.
func New(p Parts) *Handover {
	h := &Handover{Parts: p, seen: &identity.Checks{File: p.Home.CIChecks()}}
	h.Owner = &contexts.Owner{Allowed: &contexts.Allowed{File: p.Home.Allowed()}, Withdrawn: p.Team.SharingChanged, Log: p.Log}
	h.Owner.Find, h.Owner.Prepare, h.Owner.Accept, h.Owner.PauseFor = h.find, h.prepare, h.accept, h.pauseFor
	h.Owner.Subjects, h.Owner.Base, h.Owner.History = h.subjects, h.baseOf, h.historyOf
	h.Copies, h.Ahead = &copies{Handover: h}, &ahead{Handover: h}
	h.Owner.Copy, h.Owner.Chosen = h.Copies.find, h.Copies.isChosen
	h.live = &contexts.LiveOwner{May: h.mayTake, Return: h.comeBack, Boxes: liveBoxes{host.MovesOf(p.Boxes), p.Peers}, Failed: func(id string, err error) {
		p.Log.Error("a box that was not taken does not go on", "box", id, "error", err)
	}}
	p.Team.Serve(contexts.LiveService, h.live.Handler())
	p.Team.Serve(contexts.Service, h.Owner.Handler())
	p.Team.Serve(contexts.PushService, h.Owner.PushHandler())
	return h
}

func (h *Handover) Handle(mux *http.ServeMux) {
	api.Handle(mux, api.ShowIdentity, h.show)
	api.Handle(mux, api.CheckIdentity, h.check)
	api.Handle(mux, api.IdentityStats, h.stats)
	api.Handle(mux, api.ShareContext, h.share)
	api.Handle(mux, api.PullContext, h.pull)
	api.Handle(mux, api.MoveContext, h.moveHere)
	api.Handle(mux, api.PushContext, h.push)
	api.Handle(mux, api.ConnectContext, h.connectThere)
	api.Handle(mux, api.Prefetch, h.Ahead.serve)
}

// subject is a box or a task, and how it is called.
type subject struct {
	contexts.Subject
	name string
	task *agentbox.Task // nil for a box
}

func (h *Handover) lookUp(ctx context.Context, ref api.BoxRef) (subject, error) {
	if id, err := agentbox.ParseTaskID(ref.Box); err == nil {
		t, err := h.Queue.Store.Read(id)
		if err == nil {
			return subject{contexts.Subject{ID: id.String(), Project: t.Project}, id.String(), &t}, nil
		}
		if agentbox.CodeOf(err) != agentbox.NotFound {
			return subject{}, err
		}
	}
	b, err := h.Boxes.Find(ctx, ref)
	return subject{contexts.Subject{ID: b.ID.String(), Project: b.Project}, b.Name, nil}, err
}

func (h *Handover) find(ctx context.Context, name string) (contexts.Subject, error) {
	if name == "" {
		return contexts.Subject{}, agentbox.Errorf(agentbox.NotFound, "no name")
	}
	s, err := h.lookUp(ctx, api.BoxRef{Box: name})
	return s.Subject, err
}

// capture takes a snapshot of a box or task, and signs what it is.
func (h *Handover) capture(ctx context.Context, s subject, progress agentbox.Progress) (d identity.Document, encoded []byte, snap layers.StoredSnapshot, err error) {
	if d, snap, err = h.read(ctx, s, progress); err != nil {
		return d, nil, snap, err
	}
	names := slices.Sorted(maps.Keys(d.Lockfiles))
	if d.Lockfiles, err = snap.Document.Digests(ctx, h.Snapshots.Mirror(snap.Document.Project), names); err != nil {
		return d, nil, snap, err
	}
	d.Project, d.Commit, d.Snapshot, d.Created = snap.Document.Project, snap.Document.Head, snap.ID, snap.Created
	d, encoded, err = d.Sign(h.Key)
	return d, encoded, snap, err
}

func (h *Handover) read(ctx context.Context, s subject, progress agentbox.Progress) (d identity.Document, snap layers.StoredSnapshot, err error) {
	ref := api.BoxRef{Box: s.ID}
	kept, err := h.Work.Left(ctx, &ref)
	if err != nil {
		return d, snap, err
	}
	if kept == nil {
		if d, err = host.OriginsOf(h.Boxes).Identity(ctx, ref); err == nil {
			_, snap, _, err = h.Snapshots.Take(ctx, ref, progress)
		}
	} else {
		if d, err = h.ofAttempt(*s.task); err != nil {
			return d, snap, err
		}
		exact, err := kept.Exact(ctx)
		if d.Branch != d.Commit { // else none was checked out
			exact.Branch = d.Branch
		}
		if err == nil {
			snap, _, err = h.Snapshots.Keep(ctx, exact, s.Project, s.name)
		}
		if err != nil {
			return d, snap, err
		}
	}
	if t := s.task; t != nil {
		d.Task, d.Agent = t.ID.String(), t.Agent
		for _, name := range t.Lockfiles {
			if d.Lockfiles == nil {
				d.Lockfiles = map[string]string{}
			}
			d.Lockfiles[path.Join(filepath.ToSlash(t.ArtifactsIn), name)] = ""
		}
	}
	return d, snap, err
}

// ofAttempt is what the box of a task's last attempt was made of, as far as it was recorded: an attempt
// of another machine is not.
func (h *Handover) ofAttempt(t agentbox.Task) (d identity.Document, err error) {
	err = durable.ReadJSON(filepath.Join(h.Queue.Store.Attempt(t.ID, t.Last().Number), tasks.IdentityFile), &d)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return d, err
}

func (h *Handover) show(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.Identity, error) {
	s, err := h.lookUp(ctx, ref)
	if err != nil {
		return api.Identity{}, err
	}
	d, _, _, err := h.capture(ctx, s, progress)
	out := api.Identity{Document: d, ID: d.ID()}
	if img, err := h.Team.Files.Get(d.Image.String()); err == nil { // else its packages are not known here
		out.Packages = img.Versions
	}
	return out, err
}

// prepare makes what a member who may enter a context is handed.
func (h *Handover) prepare(ctx context.Context, of contexts.Subject, q contexts.Question) (a contexts.Answer, err error) {
	s, err := h.lookUp(ctx, api.BoxRef{Box: of.ID})
	if err != nil {
		return a, err
	}
	_, encoded, snap, err := h.capture(ctx, s, nil)
	if err != nil {
		return a, err
	}
	a.Snapshot, a.Work = snap.Manifest, snap.Work
	if a.Identity, err = h.Snapshots.PutIdentity(ctx, of.ID, encoded); err != nil || !q.History {
		return a, err
	}
	a.History, err = h.Snapshots.HistoryOf(ctx, snap.Document, q.Have)
	return a, err
}

// pauseFor pauses what is entered with --steal.
func (h *Handover) pauseFor(ctx context.Context, of contexts.Subject, member peers.PeerID) error {
	ref := api.BoxRef{Box: of.ID}
	if kept, err := h.Work.Find(ctx, &ref); kept != nil || err != nil {
		return err // nothing of it runs here
	}
	return host.PauseFor(ctx, h.Boxes, ref, h.Peers.Name(member))
}

// share replaces who may enter something.
func (h *Handover) share(ctx context.Context, req api.ShareRequest, _ agentbox.Progress) (out api.Shared, err error) {
	what := contexts.Subject{}
	if req.Project {
		p, err := sources.ProjectOf(ctx, req.Directory)
		if err != nil {
			return out, err
		}
		what, out.What, out.Name = contexts.OfProject(p.Name), "project", p.Name
	} else {
		s, err := h.lookUp(ctx, req.BoxRef)
		if err != nil {
			return out, err
		}
		what, out.What, out.Name = s.Subject, "box", s.name
		if s.task != nil {
			out.What = "task"
		}
	}
	members, err := h.members(req)
	if err != nil {
		return out, err
	}
	out.Members = []string{}
	for _, m := range members {
		out.Members = append(out.Members, h.Peers.Member(m))
	}
	defer h.cache.forget()
	out.Push = req.Push && len(members) > 0
	return out, h.Owner.Share(what, members, req.Push)
}

func (h *Handover) members(req api.ShareRequest) (ids []string, err error) {
	switch {
	case req.Stop:
		return nil, nil
	case h.Mesh == nil:
		return nil, agentbox.Errorf(agentbox.Unavailable, "this machine's part in its team cannot be read")
	case len(req.Members) == 0:
		return []string{contexts.Everybody}, nil
	}
	for _, name := range req.Members {
		m, err := h.Mesh.Find(name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, m.ID.String())
	}
	return ids, nil
}

// maxShared bounds the tasks that are announced after they have ended.
const maxShared = 50

// shared are the newest tasks that have ended with work that some member may enter, given the open
// ones. They are read again when somebody shares something, when an open one has ended, so that the
// team never misses it, or after a while.
func (h *Handover) shared(open []*agentbox.Task) []*agentbox.Task {
	h.cache.mu.Lock()
	defer h.cache.mu.Unlock()
	over := oneEnded(h.cache.open, open)
	if h.cache.open = open; !over && time.Since(h.cache.read) < cacheTime {
		return h.cache.ended
	}
	h.cache.ended, h.cache.read = nil, time.Now()
	if any, err := h.Owner.Allowed.Any(); err != nil || !any {
		return nil
	}
	list, _ := h.Queue.Store.List() // one that cannot be read cannot be entered
	for _, t := range slices.Backward(list) {
		last := t.Last()
		if !t.State.Done() || last == nil || last.Result == nil || last.Result.Ref == "" && t.Source == nil || t.For != nil {
			continue
		}
		members, err := h.Owner.Allowed.Members(contexts.Subject{ID: t.ID.String(), Project: t.Project})
		if err == nil && len(members) > 0 && len(h.cache.ended) < maxShared {
			h.cache.ended = append(h.cache.ended, &t)
		}
	}
	return h.cache.ended
}

// oneEnded tells whether a task was open before and is not now.
func oneEnded(before, now []*agentbox.Task) bool {
	if len(before) == 0 || len(now) == len(before) && &now[0] == &before[0] { // the same look of the queue
		return false
	}
	open := map[agentbox.TaskID]bool{}
	for i := range now {
		open[now[i].ID] = true
	}
	return slices.ContainsFunc(before, func(t *agentbox.Task) bool { return !open[t.ID] })
}

// NeedsSource tells whether others may enter a task that has ended and left nothing but its source.
func (h *Handover) NeedsSource(t agentbox.Task) bool {
	last := t.Last()
	if last == nil || last.Result == nil || last.Result.Ref != "" {
		return false
	}
	members, err := h.Owner.Allowed.Members(contexts.Subject{ID: t.ID.String(), Project: t.Project})
	return err != nil || len(members) > 0
}

// cacheTime is how long the list of shared tasks may be out of date.
const cacheTime = 10 * time.Second

// sharedCache has the tasks that shared has found.
type sharedCache struct {
	mu    sync.Mutex
	read  time.Time
	ended []*agentbox.Task
	open  []*agentbox.Task // when shared was asked last
}

func (s *sharedCache) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = time.Time{}
}
