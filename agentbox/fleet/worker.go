package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
	"agentbox/agentbox/resources"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
	"agentbox/policy"
)

// Team is what a worker needs of the mesh.
type Team interface {
	// Offers are the offers in the catalogues of the others, with the names of their owners.
	Offers() map[identity.PeerID][]catalogue.Record
	Name(identity.PeerID) string
	// Dial connects to a member, DialLine so that the connection stays while little is said. The error is
	// Unavailable without a team.
	Dial(ctx context.Context, peer identity.PeerID) (*wire.Conn, error)
	DialLine(ctx context.Context, peer identity.PeerID) (*wire.Conn, error)
	Self() identity.PeerID
	// IsMember tells whether a peer is a member, which it is while that is unknown.
	IsMember(identity.PeerID) bool
}

// Local is what a worker needs of its own machine.
type Local interface {
	// Keeps tells whether this machine keeps tasks for owners that sleep.
	Keeps() bool
	// Idle measures and decides whether one more task is taken.
	Idle(ctx context.Context) (Readiness, error)
	Fits(resources.Share) bool
	// Images are those that are here, as Digest.Short.
	Images() []string
	// Missing and Import receive a source (source.Store).
	Missing(manifest io.Reader) ([]agentbox.Digest, error)
	Import(ctx context.Context, r io.Reader) (agentbox.Digest, func(), error)
	// Submit queues a task, whose spec has an origin.
	Submit(context.Context, agentbox.TaskSpec) (agentbox.Task, error)
	// Tasks are those that have an origin.
	Tasks() []agentbox.Task
	Cancel(agentbox.TaskID) error
	// Remove drops a task whose result its owner has. One whose box has what could not be kept is
	// Delivered, and stays. Forget drops a task with its box.
	Remove(agentbox.TaskID) error
	Forget(context.Context, agentbox.Task) error
	// Written copies what a task's command wrote.
	Written(ctx context.Context, t agentbox.Task, w io.Writer) error
	// Pack writes the commits of a task's work.
	Pack(ctx context.Context, t agentbox.Task, w io.Writer) error
	// Save takes a snapshot of a task that runs, Saved finds the last one. The error of Saved is NotFound
	// if there is none.
	Save(ctx context.Context, t agentbox.Task) (document []byte, pack func(context.Context, io.Writer) error, err error)
	Saved(ctx context.Context, t agentbox.Task) (document []byte, pack func(context.Context, io.Writer) error, err error)

	// Enter says how to log in to the box of a task that runs, and which job it runs. SSH connects to
	// its SSH server. Follow writes what the job writes, until it ends.
	Enter(ctx context.Context, t agentbox.Task) (*api.Connection, *agentbox.Job, error)
	SSH(ctx context.Context, t agentbox.Task) (net.Conn, error)
	Follow(ctx context.Context, t agentbox.Task, w io.Writer) error

	// Freeze stops everything in the box of a task at once. Still lets the box go on, but not its
	// command, so that a snapshot can be taken.
	Freeze(ctx context.Context, t agentbox.Task) error
	Still(ctx context.Context, t agentbox.Task) error
	// Return drops a task that is given back, with its box. Returned tells whether it was.
	Return(agentbox.TaskID) error
	Returned(agentbox.TaskID) bool
}

// Readiness is what a machine does for others now.
type Readiness struct {
	Against []api.IdleReason // why it takes no task; empty if it does
	Ends    []api.IdleReason // why it gives back those that run
	Serves  func(owner string) bool
	Machine Machine
}

// Worker takes tasks of others while this machine is idle. The fields are required; Run is called
// once.
type Worker struct {
	Team  Team
	Local Local
	Log   *slog.Logger
	// Wake has a notification when the catalogues of others have changed.
	Wake background.Signal
	// Changed is called when what this machine says of itself has changed, and when a task is followed no
	// more. It must not block.
	Changed func()
	// Admit lets a member into a box of this machine, or into that of a task, by its name or ID.
	Admit func(ctx context.Context, member identity.PeerID, name string) (Entrance, error)

	mu       sync.Mutex
	followed map[agentbox.TaskID]followed
	lines    lines
	returns  map[agentbox.TaskID]bool // that are being given back
	refused  map[agentbox.TaskID]bool // that this machine's owner does not want here
	not      NotNow
	turns    Turns
	taking   int              // that are claimed, and not in the queue yet
	machine  catalogue.Record // what this machine says of itself
}

// How often offers are looked at without news; how often the machine is measured while its owner allows
// no tasks, and the owner looked at while tasks run here; and how long an offer is left alone that did not
// work.
const (
	lookEvery = 2 * time.Second
	restEvery = 20 * time.Second
	seeEvery  = 250 * time.Millisecond
	again     = 30 * time.Second
)

// Running counts the tasks of others that run here.
func (w *Worker) Running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taking + w.count(runs)
}

// Unsettled counts also those whose owner does not have the result yet.
func (w *Worker) Unsettled() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taking + w.count(runs) + w.count(ended)
}

// count counts the tasks of others in which this machine has a part. The caller holds w.mu.
func (w *Worker) count(as part) (n int) {
	for _, f := range w.followed {
		if f.part == as {
			n++
		}
	}
	return n
}

// Run takes tasks and follows them until ctx ends, and waits for all that it began.
func (w *Worker) Run(ctx context.Context) {
	w.mu.Lock()
	w.followed, w.returns, w.refused, w.not = map[agentbox.TaskID]followed{}, map[agentbox.TaskID]bool{}, map[agentbox.TaskID]bool{}, NotNow{}
	w.mu.Unlock()
	var work sync.WaitGroup
	defer w.lines.close()
	defer work.Wait()
	work.Go(func() { w.forget(ctx) })
	for last := time.Now(); ; {
		now, err := w.Local.Idle(ctx)
		if err != nil {
			w.Log.Error("cannot tell whether this machine is idle", "error", err)
		}
		running := map[identity.PeerID]int{}
		for _, t := range w.Local.Tasks() {
			if owner, err := identity.ParsePeer(t.For.Owner); err == nil && !t.Delivered {
				if partIn(t) == runs {
					running[owner]++
				}
				w.follow(ctx, &work, owner, t)
			}
		}
		w.addTurns(running, time.Since(last))
		last = time.Now()
		w.giveBack(ctx, &work, err == nil && len(now.Ends) > 0)
		w.look(ctx, &work, running, now, err == nil && len(now.Against) == 0)
		w.describe(now.Machine)
		wait := lookEvery
		if len(running) > 0 {
			wait = seeEvery
		} else if slices.Contains(now.Ends, api.IdleDenied) && !w.Local.Keeps() {
			wait = restEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-w.Wake:
		case <-time.After(wait):
		}
	}
}

// addTurns adds how long tasks ran.
func (w *Worker) addTurns(running map[identity.PeerID]int, span time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for owner, n := range running {
		w.turns.Add(owner, time.Duration(n)*span)
	}
}

// describe has this machine's catalogue say what it has for others.
func (w *Worker) describe(m Machine) {
	r := m.record()
	w.mu.Lock()
	same := w.machine.Text == r.Text
	w.machine = r
	w.mu.Unlock()
	if !same {
		w.Changed()
	}
}

// Record is what this machine says of itself in its catalogue; nothing if it runs no tasks of others.
func (w *Worker) Record() []catalogue.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.machine.Text == "" || strings.Contains(w.machine.Text, string(api.IdleDenied)) {
		return nil
	}
	return []catalogue.Record{w.machine}
}

// look takes one offer, if there is one for this machine: to keep, or if it is idle to run.
func (w *Worker) look(ctx context.Context, work *sync.WaitGroup, running map[identity.PeerID]int, now Readiness, idle bool) {
	keeper := w.Local.Keeps()
	if !keeper && !idle {
		return
	}
	w.mu.Lock()
	c := Candidate{Self: w.Team.Self(), Serves: now.Serves, Fits: w.Local.Fits, Running: running, Labels: now.Machine.Labels, Turns: &w.turns, Not: w.not}
	images := sync.OnceValue(w.Local.Images)
	c.Has = func(image string) bool { return slices.Contains(images(), image) }
	offers := readOffers(w.Team)
	o, ok := Offer{}, false
	if keeper && w.count(keeps) < maxKept {
		o, ok = chooseKept(c.Self, w.not, offers, time.Now())
	}
	if !ok && idle {
		o, ok = Choose(c, offers, time.Now())
	}
	if ok {
		maps.DeleteFunc(w.not, func(_ offerKey, until time.Time) bool { return time.Now().After(until) })
		w.not.Leave(o, time.Now().Add(again))
		w.taking++
	}
	w.mu.Unlock()
	if !ok {
		return
	}
	work.Go(func() {
		o, err := w.take(ctx, o)
		if err != nil && ctx.Err() == nil {
			w.Log.Warn("cannot take a task", "task", o.Task, "owner", o.Name, "error", err)
		}
		w.mu.Lock()
		if err != nil { // it is given back, and offered anew
			w.not[attemptOf(o.Owner, o.Task, o.Attempt)] = time.Now().Add(again)
		}
		w.taking--
		w.mu.Unlock()
		w.Wake.Notify()
	})
}

// readOffers reads the offers of others. One that is none is left out: it may be a later build's.
func readOffers(team Team) (all []Offer) {
	for owner, records := range team.Offers() {
		for _, r := range records {
			o := Offer{Owner: owner, Name: team.Name(owner)}
			id, attempt, _ := strings.Cut(r.Key, "/")
			var err1, err2 error
			o.Task, err1 = agentbox.ParseTaskID(id)
			o.Attempt, err2 = strconv.Atoi(attempt)
			if errors.Join(err1, err2, json.Unmarshal([]byte(r.Text), &o)) == nil && o.Need.CPUs >= 0 && o.Need.Memory >= 0 {
				all = append(all, o)
			}
		}
	}
	return all
}

// take claims an offer, or another attempt like it, fetches its source and queues it. If that fails, the
// lease is given back. It returns which one it was.
func (w *Worker) take(ctx context.Context, o Offer) (Offer, error) {
	w.mu.Lock()
	q := question{Do: askClaim, Task: o.Task, Attempt: o.Attempt, Alike: true, Except: w.not.of(o.Owner, time.Now())}
	w.mu.Unlock()
	got, err := w.askAnew(ctx, o.Owner, q)
	if err != nil {
		return o, err
	}
	if got.Stop != "" || got.Spec == nil || got.Spec.Source == nil {
		return o, nil // another machine was faster
	}
	w.took(o)
	if got.Task != (agentbox.TaskID{}) {
		o.Task, o.Attempt = got.Task, got.Attempt
	}
	q = question{Task: o.Task, Attempt: o.Attempt, Fence: got.Fence}
	alive, stop := context.WithCancel(ctx)
	defer stop()
	go w.keepAlive(alive, o.Owner, q)
	if err = w.queue(ctx, o, q, *got.Spec, got.Loan); err != nil {
		stop()
		q.Do = askReturn
		_ = w.tell(ctx, o.Owner, q) // else the lease runs out
	}
	return o, err
}

// took records that this machine has an attempt by an offer, which may be good for more.
func (w *Worker) took(o Offer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.not.Forget(o)
	if !o.Keep {
		w.turns.Begin(o.Owner)
	}
}

// keepAlive keeps a lease until ctx ends.
func (w *Worker) keepAlive(ctx context.Context, owner identity.PeerID, q question) {
	q.Do = askBeat
	for background.Sleep(ctx, beatEvery) {
		_ = w.tell(ctx, owner, q) // the next one may arrive
	}
}

// tell asks a question whose answer does not matter.
func (w *Worker) tell(ctx context.Context, owner identity.PeerID, q question) error {
	_, err := w.askBriefly(ctx, owner, q)
	return err
}

// queue fetches the source of a task and queues it as a guest's.
func (w *Worker) queue(ctx context.Context, o Offer, q question, spec agentbox.TaskSpec, loan json.RawMessage) error {
	if _, err := policy.ParseLoan(loan); err != nil {
		return err
	}
	release, err := w.fetch(ctx, o.Owner, q, spec.Source.Digest)
	if err != nil {
		return err
	}
	defer release()
	where := o.Name + ":" + o.Task.String()
	if spec.Continue != nil {
		release, err := w.fetch(ctx, o.Owner, q, spec.Continue.Digest)
		if err != nil {
			return err
		}
		defer release()
		spec.Continue = &agentbox.SourceRef{Digest: spec.Continue.Digest, Directory: where, Elsewhere: true, Subdir: spec.Continue.Subdir}
	}
	if spec.Isolation == "" {
		spec.Isolation = agentbox.Auto
	}
	spec.Directory = o.Name
	spec.Source = &agentbox.SourceRef{Digest: spec.Source.Digest, Directory: where, Elsewhere: true, Subdir: spec.Source.Subdir}
	spec.For = &agentbox.TaskOrigin{Owner: o.Owner.String(), Name: o.Name, Task: o.Task, Attempt: o.Attempt, Fence: q.Fence, Loan: loan}
	_, err = w.Local.Submit(ctx, spec)
	return err
}

// fetch gets a source from its owner, without the files that are here. It stays until release is
// called.
func (w *Worker) fetch(ctx context.Context, owner identity.PeerID, q question, want agentbox.Digest) (release func(), err error) {
	var missing []agentbox.Digest
	var a answer
	q.Do, q.Source = askManifest, want
	err = w.ask(ctx, owner, q, func(s *wire.Stream) error {
		if err := wire.ReadMessage(s, &a, maxMessage); err != nil || a.Stop != "" {
			return errors.Join(err, stopError(a.Stop))
		}
		missing, err = w.Local.Missing(s)
		return err
	})
	if err != nil {
		return nil, err
	}
	q.Do = askExport
	err = w.askWith(ctx, owner, q, func(s *wire.Stream) error {
		for _, d := range missing {
			if _, err := fmt.Fprintln(s, d); err != nil {
				return err
			}
		}
		return nil
	}, func(s *wire.Stream) error {
		if err := wire.ReadMessage(s, &a, maxMessage); err != nil || a.Stop != "" {
			return errors.Join(err, stopError(a.Stop))
		}
		var got agentbox.Digest
		if got, release, err = w.Local.Import(ctx, s); err == nil && got != want {
			release()
			err = agentbox.Errorf(agentbox.Corrupt, "the source is another one")
		}
		return err
	})
	return release, err
}

func stopError(stop string) error {
	if stop == "" {
		return nil
	}
	return agentbox.Errorf(agentbox.Conflict, "the owner says: %s", agentbox.Printable(stop[:min(len(stop), 80)]))
}

// ask asks the owner a question, on a connection of its own.
func (w *Worker) ask(ctx context.Context, owner identity.PeerID, q question, read func(*wire.Stream) error) error {
	return w.askWith(ctx, owner, q, func(*wire.Stream) error { return nil }, read)
}

// askWith is ask for a question that is followed by more.
func (w *Worker) askWith(ctx context.Context, owner identity.PeerID, q question, write, read func(*wire.Stream) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	c, err := w.Team.Dial(ctx, owner)
	if err != nil {
		return err
	}
	defer c.Close()
	defer c.KeepAlive()()
	s, err := c.OpenStream(ctx)
	if err != nil {
		return err
	}
	defer s.Abort()
	defer context.AfterFunc(ctx, s.Abort)()
	if err := wire.WriteMessage(s, q); err != nil {
		return err
	}
	if err := write(s); err != nil {
		return err
	}
	_ = s.Close()
	return read(s)
}
