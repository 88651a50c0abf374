package handover

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/contexts"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/fleet/elsewhere"
	"agentbox/agentbox/team"
	"agentbox/mesh/catalogue"
	peers "agentbox/mesh/identity"
)

const (
	copiesOfTask = 2         // beside the machines that have a part in it
	maxCopies    = 200       // of others, here
	maxCopyBytes = 256 << 20 // of the work of one, and maxHistory of what it builds on
	maxHistory   = 4 << 30
	copyEvery    = time.Minute

	copiesFile = "copies.json" // of a task's first attempt: who has copies
)

// copies has tasks of others here, so that they can be entered when their owner is gone, and chooses who
// has those of this machine. mu guards chosen.
type copies struct {
	*Handover

	mu     sync.Mutex
	chosen map[agentbox.TaskID][]peers.PeerID
}

// keptCopy is the file of a copy.
type keptCopy struct {
	contexts.Copy
	Context team.Context `json:"context"`
	ID      string       `json:"id"`
}

// choose decides which members are to have a copy of a task: those who may enter it, and are there.
// Who was chosen once stays so.
func (c *copies) choose(t agentbox.Task) (ids []string) {
	list, err := c.Owner.Allowed.Members(contexts.Subject{ID: t.ID.String(), Project: t.Project})
	if err != nil || len(list) == 0 || t.For != nil {
		return nil
	}
	all := contexts.Copy{Members: list}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chosen == nil {
		c.chosen = map[agentbox.TaskID][]peers.PeerID{}
	}
	last := t.Last()
	if last == nil {
		return nil
	}
	file := filepath.Join(c.Queue.Store.Attempt(t.ID, 1), copiesFile)
	before, known := c.chosen[t.ID]
	if !known {
		_ = durable.ReadJSON(file, &before) // of an earlier daemon; else others are chosen
	}
	has := slices.DeleteFunc(slices.Clone(before), func(p peers.PeerID) bool { return !all.May(p) })
	part, _ := c.Fleet.Worker(t.ID, last.Number)
	for _, p := range c.Mesh.OnlinePeers() {
		if len(has) < copiesOfTask && p != part && all.May(p) && !slices.Contains(has, p) {
			has = append(has, p)
		}
	}
	c.chosen[t.ID] = has
	if !slices.Equal(has, before) {
		if err := durable.WriteJSON(file, has, 0o600); err != nil {
			c.Log.Warn("cannot record which machines have copies of a task", "task", t.ID, "error", err)
		}
	}
	for _, p := range has {
		ids = append(ids, p.String())
	}
	return ids
}

// isChosen tells whether a member is to have a copy.
func (c *copies) isChosen(s contexts.Subject, member peers.PeerID) bool {
	id, err := agentbox.ParseTaskID(s.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	return err == nil && slices.Contains(c.chosen[id], member)
}

// versionOf names what there is to copy of a task; "" for nothing.
func versionOf(t agentbox.Task) string {
	last := t.Last()
	switch {
	case last == nil:
		return ""
	case last.Result != nil:
		return string(t.State) + " " + strconv.Itoa(last.Number) + " " + short(cmp.Or(last.Result.Commit, "-"))
	case last.Saved != nil:
		return string(t.State) + " " + last.Saved.Snapshot.Short()
	}
	return ""
}

// copyName is what members ask for. The owner is in it, as another one could have a task of the same ID.
func copyName(owner peers.PeerID, id string) string { return id + "@" + owner.String() }

func (c *copies) file(name string) string { return filepath.Join(c.Home.Copies(), name+".json") }

// find finds a copy by its name.
func (c *copies) find(name string) (contexts.Copy, bool) {
	id, owner, _ := strings.Cut(name, "@")
	of, err := peers.ParsePeer(owner)
	if _, idErr := agentbox.ParseTaskID(id); errors.Join(err, idErr) != nil || copyName(of, id) != name {
		return contexts.Copy{}, false
	}
	var k keptCopy
	err = durable.ReadJSON(c.file(name), &k)
	return k.Copy, err == nil && k.ID == id // without a file it is the zero copy
}

// list lists the copies that are here.
func (c *copies) list() (all []keptCopy) {
	files, _ := filepath.Glob(c.file("*"))
	for _, f := range files {
		var k keptCopy
		if durable.ReadJSON(f, &k) == nil { // another one is made anew
			all = append(all, k)
		}
	}
	return all
}

// announced are the copies that are here, for this machine's catalogue.
func (c *copies) announced() (all []team.Context) {
	for _, k := range c.list() {
		one := k.Context
		one.Kind, one.ID, one.Of, one.Copies = catalogue.Task, k.ID, k.Owner.String(), nil
		all = append(all, one)
	}
	return all
}

// Run makes and drops copies until ctx ends, as the members announce it.
func (c *copies) Run(ctx context.Context) {
	if err := c.sweep(ctx); err != nil && ctx.Err() == nil {
		c.Log.Warn("cannot drop what is left of copies", "error", err)
	}
	for {
		changed := c.Changed()
		c.once(ctx)
		select {
		case <-ctx.Done():
			return
		case <-changed:
			if !background.Sleep(ctx, elsewhere.FollowEvery) { // several changes are one
				return
			}
		case <-time.After(copyEvery):
		}
	}
}

// sweep drops what a crash left of copies that were being made.
func (c *copies) sweep(ctx context.Context) error {
	names, err := c.Snapshots.Copies(ctx)
	for _, name := range names {
		if _, ok := c.find(name); !ok {
			err = errors.Join(err, c.Snapshots.DropCopy(ctx, name))
		}
	}
	return err
}

func (c *copies) once(ctx context.Context) {
	m := c.Mesh
	if m == nil || m.Self().IsZero() {
		return
	}
	self, online := m.Self().String(), m.OnlinePeers()
	wanted := map[string]team.AnnouncedContext{}
	for _, a := range c.Team.TeamContexts() {
		if a.Kind == catalogue.Task && a.Owner == a.Announcer && slices.Contains(a.Copies, self) {
			wanted[copyName(a.Announcer, a.ID)] = a
		}
	}
	kept := c.list()
	for _, k := range kept {
		name := copyName(k.Owner, k.ID)
		a, ok := wanted[name]
		switch {
		case ok && a.Version == k.Context.Version:
			delete(wanted, name)
		case !ok && slices.Contains(online, k.Owner):
			c.drop(ctx, k)
		}
	}
	for _, a := range wanted {
		if !slices.Contains(online, a.Announcer) || a.Version == "" || len(kept) >= maxCopies {
			continue
		}
		if err := c.make(ctx, a); err != nil && ctx.Err() == nil {
			c.Log.Info("a task of another machine cannot be copied", "task", a.ID, "owner", a.Announcer.Short(), "error", err)
		}
	}
}

// make gets all of a context from its owner.
func (c *copies) make(ctx context.Context, a team.AnnouncedContext) error {
	if _, err := agentbox.ParseTaskID(a.ID); err != nil {
		return err
	}
	p := &pulling{Handover: c.Handover, peer: a.Announcer, whose: a.Announcer}
	p.out.From = c.Peers.Name(a.Announcer)
	if err := p.identify(ctx, contexts.Question{Name: a.ID, History: true}); err != nil {
		return err
	}
	if len(p.answer.Members) == 0 {
		return agentbox.Errorf(agentbox.Forbidden, "its owner wants no copy here")
	}
	for manifest, most := range map[agentbox.Digest]int64{p.answer.Work: maxCopyBytes, p.answer.History: maxHistory} {
		r, _, err := p.pack(ctx, manifest, most)
		if err != nil {
			return err
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	if err := c.Snapshots.KeepCopy(ctx, copyName(a.Announcer, a.ID), p.answer.Identity, p.answer.Snapshot, p.answer.Work, p.answer.History); err != nil {
		return err
	}
	k := keptCopy{Copy: contexts.Copy{Owner: a.Announcer, Members: p.answer.Members, Answer: p.answer}, Context: a.Context, ID: a.ID}
	k.Answer.Members = nil
	if err := os.MkdirAll(c.Home.Copies(), 0o700); err != nil {
		return err
	}
	err := durable.WriteJSON(c.file(copyName(a.Announcer, a.ID)), k, 0o600)
	c.Team.Notify()
	return err
}

// drop drops a copy that its owner does not want here any more.
func (c *copies) drop(ctx context.Context, k keptCopy) {
	name := copyName(k.Owner, k.ID)
	err := c.Snapshots.DropCopy(ctx, name)
	if err == nil {
		err = os.Remove(c.file(name)) // last, so that what fails is tried again
	}
	if err != nil {
		c.Log.Warn("cannot drop a copy", "task", k.ID, "error", err)
	}
	c.Team.Notify()
}
