package handover

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
	"agentbox/agentbox/contexts"
	"agentbox/agentbox/fleet/elsewhere"
	"agentbox/agentbox/identity"
	"agentbox/agentbox/layers"
	"agentbox/agentbox/project"
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/team"
	peers "agentbox/mesh/identity"
)

// pulling is one call of PullContext. mu guards steps.
type pulling struct {
	*Handover
	progress agentbox.Progress
	peer     peers.PeerID // who has it
	whose    peers.PeerID // who signed it
	out      api.PulledContext
	answer   contexts.Answer
	snap     layers.StoredSnapshot

	mu    sync.Mutex
	steps []api.ContextStep
}

// pull brings a context of another machine here: its identity first, then image, setup result, and
// commits with the snapshot at the same time. Nothing of it runs, and nothing is left of what is not
// whole.
func (h *Handover) pull(ctx context.Context, req api.ContextRef, progress agentbox.Progress) (api.PulledContext, error) {
	p := &pulling{Handover: h, progress: progress}
	theirs, err := h.locate(req.Name)
	if err != nil {
		return p.out, err
	}
	p.peer, p.whose, p.out.From = theirs.Announcer, theirs.Owner, h.Peers.Name(theirs.Announcer)
	h.Boxes.Policies.LookAhead()
	if !req.Live { // what moves brings its own files, and waits until the disk has them and all others
		h.Sources.CopyAhead(theirs.Project)
	}
	if err := p.identify(ctx, contexts.Question{Name: nameOf(theirs), Steal: req.Steal}); err != nil {
		return p.out, err
	}
	all, inner := errgroup.WithContext(ctx)
	all.Go(func() error { return p.work(inner, theirs, req.Directory) })
	// The kind that its box has is that of ours, as a rule. A home's first look at gVisor takes half a
	// second; at a microVM it may take ten, which nobody waits for in vain.
	if kind := p.out.Identity.Isolation; !agentbox.KindOf(kind).GuestKernel {
		all.Go(func() error { _, _ = h.Boxes.Kinds().Probe(inner, kind, false); return inner.Err() })
	}
	var image, setup error
	all.Go(func() error { image = p.image(inner); return inner.Err() })
	all.Go(func() error { setup = p.setup(inner); return inner.Err() })
	if err := all.Wait(); err != nil {
		return p.out, err
	}
	p.pin(image, setup)
	if req.Live {
		p.askLive(ctx, theirs)
	}
	p.out.Steps = p.steps
	p.out.Entered = &api.Entered{Machine: p.out.From, Peer: p.whose.String(), ID: theirs.ID, Name: theirs.Name, Identity: p.out.Identity}
	p.out.MissingSecrets, err = h.missingSecrets(p.out.Identity)
	return p.out, err
}

// locate finds which machine of the team works on something, or has left it.
func (h *Handover) locate(name string) (team.AnnouncedContext, error) {
	machine, what, ok := strings.Cut(name, "/")
	if !ok {
		machine, what = "", name
	}
	self := h.Peers.Self()
	found := slices.DeleteFunc(h.Team.TeamContexts(), func(c team.AnnouncedContext) bool {
		there := machine == "" || machine == h.Peers.Name(c.Owner) || machine == c.Owner.String()
		return !there || c.Owner == self || c.ID != what && c.Name != what && (len(what) < 4 || !strings.HasPrefix(c.ID, what))
	})
	found = h.nearest(found)
	if len(found) == 0 {
		return team.AnnouncedContext{}, agentbox.Errorf(agentbox.NotFound, "no machine of the team works on %s, or shares it", name).
			WithHint("agentbox ls --team lists what there is; a task that has ended has to be shared by its owner: agentbox task share %s", what)
	}
	if len(found) > 1 {
		return team.AnnouncedContext{}, agentbox.Errorf(agentbox.Conflict, "%d machines of the team have a %s", len(found), name).WithHint("name the machine: %s/%s", h.Peers.Name(found[0].Announcer), what)
	}
	return found[0], nil
}

// nearest leaves one of each context: that of its owner or, if that is away, a copy: of this machine, or
// of one that is there.
func (h *Handover) nearest(all []team.AnnouncedContext) []team.AnnouncedContext {
	self, online := h.Peers.Self(), h.Mesh.OnlinePeers()
	rank := func(c team.AnnouncedContext) int {
		switch {
		case c.Announcer == c.Owner && slices.Contains(online, c.Announcer):
			return 0
		case c.Announcer == self:
			return 1
		case slices.Contains(online, c.Announcer):
			return 2
		}
		return 3
	}
	slices.SortStableFunc(all, func(a, b team.AnnouncedContext) int {
		return cmp.Or(a.Owner.Compare(b.Owner), strings.Compare(a.ID, b.ID), cmp.Compare(rank(a), rank(b)))
	})
	return slices.CompactFunc(all, func(a, b team.AnnouncedContext) bool { return a.Owner == b.Owner && a.ID == b.ID })
}

// nameOf is what the machine that announces a context is asked for.
func nameOf(c team.AnnouncedContext) string {
	if c.Owner != c.Announcer {
		return copyName(c.Owner, c.ID)
	}
	return c.ID
}

func (p *pulling) did(what api.ContextPart, begun time.Time, bytes int64, detail string) {
	step := api.ContextStep{What: what, Detail: detail, Took: time.Since(begun), Bytes: bytes}
	if bytes > 0 {
		step.From = p.out.From
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = append(p.steps, step)
}

func (p *pulling) ask(ctx context.Context, q contexts.Question) (contexts.Answer, error) {
	if p.peer == p.Peers.Self() {
		c, _ := p.Copies.find(q.Name)
		return c.Answer, nil
	}
	c, err := p.Peers.DialService(ctx, p.peer, contexts.Service)
	if err != nil {
		return contexts.Answer{}, err
	}
	defer c.Close()
	a, err := contexts.Ask(ctx, c, q)
	if agentbox.CodeOf(err) == agentbox.Forbidden {
		err = elsewhere.NotShared(q.Name, p.out.From, q.Steal, p.Peers.Name(p.Peers.Self()))
	}
	return a, err
}

// identify gets the identity, which its owner must have signed.
func (p *pulling) identify(ctx context.Context, q contexts.Question) (err error) {
	begun := time.Now()
	if p.answer, err = p.ask(ctx, q); err != nil {
		return err
	}
	defer p.Team.Expect(p.peer, p.answer.Identity, p.answer.Snapshot)()
	b, err := p.Snapshots.FetchIdentity(ctx, p.Remotes, p.answer.Identity)
	if err != nil {
		return err
	}
	if p.out.Identity, err = p.signedBy(p.whose, b); err != nil {
		return err
	}
	if id, _, copied := strings.Cut(q.Name, "@"); copied && p.out.Identity.Task != id { // its owner signs what each task is
		return agentbox.Errorf(agentbox.Corrupt, "%s hands over another task than %s", p.out.From, id)
	}
	p.snap, err = p.Snapshots.FetchDocument(ctx, p.Remotes, p.answer.Snapshot, p.out.Identity.Snapshot)
	if err == nil && (p.snap.Document.Project != p.out.Identity.Project || p.snap.Work != p.answer.Work) {
		err = agentbox.Errorf(agentbox.Corrupt, "the snapshot of %s is not the one that its identity names", q.Name)
	}
	p.did(api.PartIdentity, begun, int64(len(b)), p.out.Identity.ID().Short())
	return err
}

func (p *pulling) work(ctx context.Context, theirs team.AnnouncedContext, directory string) error {
	begun, s, d := time.Now(), p.Snapshots, p.snap.Document
	dir := s.Mirror(d.Project)
	lacksHistory, lacksWork, err := d.Lacks(ctx, dir)
	if err != nil {
		return err
	}
	if lacksHistory {
		if lacksHistory, err = p.lacksBase(ctx, directory); err != nil {
			return err
		}
	}
	var work io.ReadCloser
	var workBytes, historyBytes int64
	both, inner := errgroup.WithContext(ctx)
	// The pack is here whether or not the mirror needs it, so that the snapshot is whole.
	both.Go(func() (err error) { work, workBytes, err = p.pack(inner, p.snap.Work, layers.AnySize); return err })
	if lacksHistory {
		both.Go(func() (err error) { historyBytes, err = p.history(inner, nameOf(theirs), dir); return err })
	}
	if err = both.Wait(); work != nil {
		defer work.Close()
	}
	if err != nil {
		return err
	}
	p.did(api.PartCommits, begun, historyBytes, cmp.Or(d.Branch, "no branch")+" at "+short(d.Head))
	begun = time.Now()
	if lacksWork {
		if err := d.Receive(ctx, dir, nil, work); err != nil {
			return err
		}
	}
	if err := s.Adopt(ctx, p.snap, theirs.Name+" of "+p.out.From); err != nil {
		return err
	}
	_, from, release, err := s.SourceOf(ctx, d, directory)
	if err != nil {
		return err
	}
	defer release()
	p.out.Source = from
	p.did(api.PartSnapshot, begun, workBytes, agentbox.Plural(d.Commits, "commit")+", "+agentbox.Plural(d.Files, "uncommitted file"))
	return nil
}

// history takes what the snapshot builds on into the mirror, while it comes, and tells how many bytes it has.
// Its owner knows it without another look into the box, unless that is of a task that ran elsewhere.
func (p *pulling) history(ctx context.Context, name, mirror string) (int64, error) {
	d := p.snap.Document
	have, err := d.Bases(ctx, mirror, maxBases)
	if err != nil {
		return 0, err
	}
	var answer contexts.Answer
	if p.peer == p.whose {
		answer, _ = p.ask(ctx, contexts.Question{Name: name, Bases: true, Have: have}) // or the next says
	}
	if answer.History.IsZero() {
		if answer, err = p.ask(ctx, contexts.Question{Name: name, History: true, Have: have}); err != nil {
			return 0, err
		}
	}
	defer p.Team.Expect(p.peer, answer.History)()
	size, err := p.Snapshots.SizeOf(ctx, p.Remotes, answer.History)
	if err != nil {
		return 0, err
	}
	return size, background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		return p.Snapshots.StreamPack(ctx, p.Remotes, answer.History, w)
	}, func(ctx context.Context, r io.Reader) error { return d.ReceiveBase(ctx, mirror, r) })
}

// maxBases bounds the commits that the owner is told this machine has.
const maxBases = 50

func (p *pulling) pack(ctx context.Context, manifest agentbox.Digest, most int64) (io.ReadCloser, int64, error) {
	defer p.Team.Expect(p.peer, manifest)()
	return p.Snapshots.FetchPack(ctx, p.Remotes, manifest, most)
}

// lacksBase looks into the user's checkout for what the snapshot builds on, and takes it into the
// mirror if it is there.
func (p *pulling) lacksBase(ctx context.Context, directory string) (bool, error) {
	if at, err := sources.ProjectOf(ctx, directory); err != nil || at.Name != p.snap.Document.Project {
		return true, nil
	}
	return p.snap.Document.TakeBase(ctx, p.Snapshots.Mirror(p.snap.Document.Project), directory)
}

// image makes the store expect the image, unless it is here. What boxes read first comes now, the rest when
// it is read.
func (p *pulling) image(ctx context.Context) error {
	begun, d := time.Now(), p.out.Identity.Image
	if d.IsZero() {
		return agentbox.Errorf(agentbox.NotFound, "the image is not known")
	}
	img, err := p.Boxes.Images.Exact(ctx, d, p.progress)
	if err != nil {
		return err
	}
	detail := d.Short() + " is here"
	if img.Lazy != nil {
		detail = d.Short() + ", comes as it is read"
		_ = p.Boxes.Images.Expect(ctx, img) // the box that needs it says why it cannot be had
	}
	p.did(api.PartImage, begun, 0, detail)
	return nil
}

func (p *pulling) setup(ctx context.Context) error {
	begun, s := time.Now(), p.out.Identity.Setup
	if s == nil {
		return nil
	}
	results := p.Results
	made, err := results.Find(ctx, s.Key)
	if err == nil {
		p.did(api.PartSetup, begun, 0, "what setup made is here")
	} else if _, err = p.Team.Setup(ctx, s.Key, nil); err == nil {
		if made, err = results.Find(ctx, s.Key); err == nil {
			p.did(api.PartSetup, begun, p.Results.Size(ctx, made.Manifest), "what setup made, without running it")
		}
	}
	if err == nil && made.Manifest != s.Result {
		err = agentbox.Errorf(agentbox.Conflict, "there is another result of setup here")
	}
	return err
}

func (p *pulling) pin(image, setup error) {
	if image != nil {
		p.progress.Note("the image of that box cannot be had, so one is made by the same recipe: " + image.Error())
		return
	}
	p.out.Pins = &api.Pins{Image: p.out.Identity.Image}
	switch s := p.out.Identity.Setup; {
	case setup != nil:
		p.progress.Note("setup runs in the box: " + setup.Error())
	case s != nil:
		p.out.Pins.Key, p.out.Pins.Result = s.Key, s.Result
	}
}

// missingSecrets lists the secrets that the identity names and that this user has not set.
func (h *Handover) missingSecrets(d identity.Document) (missing []string, err error) {
	have, err := h.Boxes.Policies.Store.SecretsFor(project.Project{Name: d.Project})
	for _, name := range d.Secrets {
		if !slices.ContainsFunc(have, func(s project.Secret) bool { return s.Name == name }) {
			missing = append(missing, name)
		}
	}
	return missing, err
}

func short(commit string) string { return commit[:min(len(commit), 12)] }
