package host

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/pool"
	"agentbox/agentbox/host/remotes"
	"agentbox/agentbox/host/staging"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"
)

// maker assembles boxes, from machines of the pool where there are any, and takes them apart. A box
// that it began is either ready or removed, by it or by the next daemon, which recognizes it by
// phaseNew in the record.
type maker struct {
	home     home.Home
	boxes    *table
	disk     disk
	machines *machines
	pool     *pool.Pool[record, *box]
	stager   staging.Stager
	remotes  remotes.Remotes
	sources  *source.Store

	naming sync.Mutex // held while a box gets its name
}

// lease takes a machine of the pool for a new box, or makes a box without a machine. The box gets
// the given name, or one made from parts. Afterwards it is in the table and on disk, in phaseNew.
// It takes over the id of the pool's machine, whose sockets and files are named by it. If lease
// fails, nothing is left.
func (m *maker) lease(of record, name string, parts ...string) (*box, error) {
	var b *box
	if of.Box.Template != "" && !of.Foreign && of.Arrived == nil { // the pool is for this machine's owner, and has his priority
		b, _ = m.pool.Take(of.Box.Template)
	}
	if b == nil {
		b = &box{rec: record{Box: agentbox.Box{ID: agentbox.NewBoxID()}}}
	}
	rec := of
	rec.Box.ID, rec.Box.Created = b.record().Box.ID, time.Now().UTC()
	rec.Box.Lease, rec.Seed = newLease(), rand.Text()
	if err := m.claim(b, rec, name, parts...); err != nil {
		return nil, errors.Join(err, m.remove(b)) // a machine of the pool does not go back
	}
	return b, nil
}

// claim gives a box its name, the wanted one or a free one made from parts, and writes the record.
// Names are claimed one at a time, so that no two boxes get the same.
func (m *maker) claim(b *box, rec record, want string, parts ...string) error {
	m.naming.Lock()
	defer m.naming.Unlock()
	if want == "" {
		want = m.boxes.freeName(parts...)
	} else if err := m.boxes.checkFree(want); err != nil {
		return err
	}
	rec.Box.Name = want
	if err := m.disk.prepare(b, rec); err != nil {
		return err
	}
	m.boxes.put(b)
	return nil
}

// assemble makes the workspace and starts the machine at the same time, then gives the workspace to
// the machine. The caller holds op. Both goroutines have ended when it returns; after an error the
// caller erases the box. It returns when the guest has its workspace and has started its services.
func (m *maker) assemble(ctx context.Context, b *box, from source.Source, progress agentbox.Progress) error {
	rec := b.record()
	kind, err := m.disk.kind(rec)
	if err != nil {
		return err
	}
	// The machine opens the empty workspace and reads nothing of it before it becomes the box.
	if b.place() == nil {
		if err := kind.Reserve(ctx, rec.spec()); err != nil {
			return err
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	var fillErr error
	filled := make(chan struct{})
	g.Go(func() error {
		defer close(filled)
		fillErr = m.stager.Fill(gctx, kind, rec.stagingTarget(m.home), from, progress)
		return fillErr
	})
	// A machine of the pool already runs and is attached below, when the files are complete. A new
	// one waits for them while it starts (launch.complete).
	pooled := b.place() != nil
	g.Go(func() error {
		if pooled {
			return nil
		}
		return m.machines.start(gctx, b, launch{complete: func() error { <-filled; return fillErr }}, progress)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	if pooled {
		if err := m.machines.attach(ctx, b, progress); err != nil {
			return err
		}
	}
	reportPorts(ctx, b, progress)
	return nil
}

// source opens what a box was made from. It stays until release is called.
func (m *maker) source(ctx context.Context, b agentbox.Box) (from source.Source, release func(), err error) {
	if !b.Source.IsZero() {
		return m.sources.Open(ctx, b.Source)
	}
	repo, err := workspace.Describe(ctx, b.Directory)
	return source.Checkout(repo), func() {}, err
}

// ready makes the box exist for its user, and a git remote of its checkout, if it has one. Until
// then a failure, or the death of the daemon, removes the box.
func (m *maker) ready(ctx context.Context, b *box, repo workspace.Repo, progress agentbox.Progress) (err error) {
	rec := b.record()
	if repo.Root != "" {
		if rec.Remote, err = m.remotes.Add(ctx, repo, rec.Box, progress); err != nil {
			return err
		}
	}
	rec.Phase = phaseReady
	return b.commit(m.home, rec)
}
