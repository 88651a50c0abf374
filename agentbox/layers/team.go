package layers

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange"
	"agentbox/mesh/exchange/schedule"
)

// Team is the place of images that peers have: as the `from` of an image, it means whoever of the
// team has pieces of it.
const Team = "team"

// teamTime is how long peers may take to give a manifest that other places may have.
const teamTime = 300 * time.Millisecond

// manifest asks the peers for a manifest.
func (a asking) manifest(ctx context.Context, d agentbox.Digest) ([]byte, error) {
	if len(a.places.order(a.first)) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, teamTime)
		defer cancel()
	}
	return a.places.peers().Manifest(ctx, d)
}

// peers is this machine's part in the mesh, nil without one.
func (p *Places) peers() *exchange.Node {
	if p.Peers == nil {
		return nil
	}
	return p.Peers()
}

// Session asks peers for chunks, and the places for what no peer has.
func (a asking) Session(ctx context.Context, manifest agentbox.Digest, m blob.Manifest, arrived cachestore.Arrived) (cachestore.Session, error) {
	j := &joint{asking: a, came: map[int]bool{}}
	counted := func(ctx context.Context, i int, b []byte) error {
		err := arrived(ctx, i, b)
		if err == nil {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.came[i] = true
		}
		return err
	}
	if node := a.places.peers(); node != nil {
		t, err := node.Begin(manifest, m, exchange.Arrived(counted))
		if err != nil && agentbox.CodeOf(err) != agentbox.Conflict && agentbox.CodeOf(err) != agentbox.Unavailable {
			return nil, err
		}
		j.peers = t
	}
	var err error
	j.places, err = cachestore.OpenSession(ctx, pieces{a}, manifest, m, counted)
	if err != nil && j.peers != nil {
		err = errors.Join(err, j.peers.Close())
	}
	return j, err
}

// pieces is asking without peers and sessions: places know pieces only.
type pieces struct{ of asking }

func (p pieces) Get(ctx context.Context, d agentbox.Digest, max int) ([]byte, error) {
	return p.of.fromPlaces(ctx, d, max)
}

// joint gets chunks from peers, and from places.
type joint struct {
	asking asking
	peers  *exchange.Transfer // nil without a mesh
	places cachestore.Session

	mu   sync.Mutex
	came map[int]bool // of what is being got
}

// class is how the scheduler calls a priority.
func class(p cachestore.Priority) schedule.Class { return schedule.Class(p) + schedule.Rest }

func (j *joint) Fetch(ctx context.Context, p cachestore.Priority, chunks []int) error {
	if j.peers == nil {
		return j.places.Fetch(ctx, p, chunks)
	}
	j.expect(chunks)
	err := j.peers.Fetch(ctx, class(p), chunks)
	if err == nil || ctx.Err() != nil || agentbox.CodeOf(err) != agentbox.NotFound {
		return err
	}
	left := j.missing(chunks)
	if len(j.asking.places.order(j.asking.first)) == 0 {
		return err
	}
	if placeErr := j.places.Fetch(ctx, p, left); placeErr != nil {
		return placeErr
	}
	return nil
}

func (j *joint) expect(chunks []int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, i := range chunks {
		delete(j.came, i)
	}
}

func (j *joint) missing(chunks []int) []int {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []int
	for _, i := range chunks {
		if !j.came[i] {
			out = append(out, i)
		}
	}
	return out
}

func (j *joint) Close() error {
	err := j.places.Close()
	if j.peers != nil {
		err = errors.Join(err, j.peers.Close())
	}
	return err
}
