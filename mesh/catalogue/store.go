package catalogue

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/durable"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Config says whose catalogues these are and where they are kept. Announce and Changed may be nil.
type Config struct {
	// Dir is made if need be; nothing else is in it.
	Dir  string
	Key  ed25519.PrivateKey
	Node *wire.Node
	Log  *slog.Logger
	// OnlinePeers lists the peers that can be asked now. It may include this machine.
	OnlinePeers func() []identity.PeerID
	// Announce gets a new head of our own, once it is on disk.
	Announce func(Head)
	// Changed is called when the catalogue of a peer changed, without a lock, by the goroutine that
	// fetched it.
	Changed func(identity.PeerID)
}

// Counters count what was fetched and refused since the catalogues were opened.
type Counters struct {
	Fetched    atomic.Uint64 // catalogues or differences that were taken
	Failed     atomic.Uint64 // times that a member gave none, or one that was not taken
	Refused    atomic.Uint64 // forged, oversized, or not what was signed
	RolledBack atomic.Uint64 // older than what is known
	Forked     atomic.Uint64 // another set of the same sequence number, by the same owner
}

// Store has the catalogues of the team: our own, and what is known of the others'. Its methods may
// be called concurrently. tasks are the fetches; Close waits for them.
type Store struct {
	cfg   Config
	self  identity.PeerID
	ctx   context.Context
	stop  context.CancelFunc
	tasks background.Group

	counters Counters

	editing sync.Mutex // held through a change of our own catalogue

	mu   sync.Mutex
	list identity.List
	// own is our own catalogue, peers what is known of the others'. Sets are replaced as a whole.
	own   *set
	peers map[identity.PeerID]*set
	// index finds records of all peers by kind and key or alias, and by manifest (holderKind).
	index map[id][]recordRef
	// seen is when we saw each claim, by our clock (claims.go).
	seen map[claimID]claimTimes
	// pending has the catalogues of which something newer exists, while they are fetched.
	pending map[identity.PeerID]*fetchTarget
}

// Open reads what is on disk, and serves peers from then on. A catalogue that cannot be read is
// fetched again; our own starts empty then, and skips the numbers that others know
// (skipUsedNumbers). Claims of the previous process are removed. The error is about the directory.
// The caller closes the Store.
func Open(cfg Config, list identity.List) (*Store, error) {
	s := &Store{
		cfg: cfg, self: identity.PeerOf(cfg.Key.Public().(ed25519.PublicKey)), list: list,
		peers: map[identity.PeerID]*set{}, index: map[id][]recordRef{}, seen: map[claimID]claimTimes{}, pending: map[identity.PeerID]*fetchTarget{},
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, agentbox.Errorf(agentbox.Missing, "keep catalogues: %w", err)
	}
	s.own = s.empty(s.self)
	if err := s.load(); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	// Nobody is making what a daemon that died had claimed, or keeps up what a later build wrote.
	if err := s.Update(func(e *Edit) { e.Replace(Claim, nil); e.forgetUnknown() }); err != nil {
		cfg.Log.Warn("mesh: earlier claims cannot be withdrawn", "error", err)
	}
	cfg.Node.Handle(wire.Catalogue, wire.AnswerHandler(maxRequest, s.serve))
	return s, nil
}

// empty is the catalogue of a peer of which nothing is known.
func (s *Store) empty(owner identity.PeerID) *set {
	d, _, _ := digestOf(nil)
	return &set{head: Head{Owner: owner, Digest: d}, records: map[id]Record{}}
}

// suffix ends the names of files; others are ignored.
const suffix = ".json"

func (s *Store) path(owner identity.PeerID) string {
	return filepath.Join(s.cfg.Dir, owner.String()+suffix)
}

// load reads the members' catalogues, and removes those of former members.
func (s *Store) load() error {
	files, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return agentbox.Errorf(agentbox.Missing, "read catalogues: %w", err)
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), suffix)
		owner, err := identity.ParsePeer(name)
		if !ok || err != nil {
			continue
		}
		if owner != s.self && isFormer(s.list, owner) {
			if err := s.removeFile(owner); err != nil {
				return err
			}
			continue
		}
		got, err := s.read(owner)
		switch {
		case err != nil && owner == s.self:
			// The others have it, and what we announce next must not have a number that they know.
			s.cfg.Log.Warn("mesh: this machine's catalogue cannot be read, starting an empty one", "error", err)
		case err != nil:
			s.cfg.Log.Warn("mesh: a catalogue cannot be read, it is fetched again", "peer", owner.Short(), "error", err)
		case owner == s.self:
			s.own = got
		default:
			s.set(owner, got)
		}
	}
	return nil
}

// read reads one, and trusts it no more than a peer.
func (s *Store) read(owner identity.PeerID) (*set, error) {
	f, err := os.Open(s.path(owner))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var d Delta
	if err := wire.ReadMessage(f, &d, maxDelta); err != nil {
		return nil, err
	}
	return s.applyVerified(nil, d, owner)
}

// write writes all of a set to disk, as one message; sync makes it durable.
func (s *Store) write(got *set, sync bool) error {
	var b bytes.Buffer
	if err := wire.WriteMessage(&b, got.since(0, 0)); err != nil {
		return err
	}
	if sync {
		return durable.WriteFile(s.path(got.head.Owner), b.Bytes(), 0o600)
	}
	return durable.Replace(s.path(got.head.Owner), b.Bytes(), 0o600)
}

// applyVerified returns what results from applying a delta to a set, nil for none, if its owner is
// a member and signed it.
func (s *Store) applyVerified(old *set, d Delta, owner identity.PeerID) (*set, error) {
	if old == nil {
		old = s.empty(owner)
	}
	s.mu.Lock()
	key := ed25519.PublicKey(nil)
	if m, _ := s.list.Member(owner); !isFormer(s.list, owner) {
		key = m.Key
	} else if owner == s.self {
		key = s.cfg.Key.Public().(ed25519.PublicKey)
	}
	team := s.list.Team()
	s.mu.Unlock()
	if d.Head.Owner != owner {
		return nil, corrupt("the catalogue of %s instead of %s", d.Head.Owner.Short(), owner.Short())
	}
	if err := d.Head.verify(headDomain, team, key); err != nil {
		return nil, err
	}
	if err := d.verifyExtra(team, key); err != nil {
		return nil, err
	}
	return old.apply(d)
}

// set replaces what is known of a peer's catalogue. The caller holds s.mu, or has s alone.
func (s *Store) set(owner identity.PeerID, next *set) {
	if old := s.peers[owner]; old != nil {
		for _, r := range old.understood() {
			s.unindex(owner, r)
		}
	}
	delete(s.peers, owner)
	if next != nil {
		s.peers[owner] = next
		for _, r := range next.understood() {
			s.reindex(owner, r)
		}
	}
	s.noteClaims(owner, next)
}

// holderKind is the kind under which the index has the holders of a manifest. No record has it.
const holderKind Kind = "holds"

func (r Record) ids() []id {
	out := []id{r.id()}
	if r.Alias != "" && r.Alias != r.Key {
		out = append(out, id{r.Kind, r.Alias})
	}
	for _, d := range []agentbox.Digest{r.Manifest, r.About} {
		if !d.IsZero() {
			out = append(out, id{holderKind, d.Hex()})
		}
	}
	return out
}

// recordRef is where a record is.
type recordRef struct {
	owner identity.PeerID
	id    id
}

// reindex and unindex keep index in step with peers. The caller holds s.mu, or has s alone.
func (s *Store) reindex(owner identity.PeerID, r Record) {
	for _, i := range r.ids() {
		s.index[i] = append(s.index[i], recordRef{owner, r.id()})
	}
}

func (s *Store) unindex(owner identity.PeerID, r Record) {
	for _, i := range r.ids() {
		s.index[i] = slices.DeleteFunc(s.index[i], func(p recordRef) bool { return p == recordRef{owner, r.id()} })
		if len(s.index[i]) == 0 {
			delete(s.index, i)
		}
	}
}

// Admit makes a list the newest one. It forgets the catalogues of members that left or were
// revoked, on disk too, and calls Changed for each. The error is about files that could not be
// removed.
func (s *Store) Admit(list identity.List) error {
	s.mu.Lock()
	s.list = list
	var gone []identity.PeerID
	for owner := range s.peers {
		if isFormer(list, owner) {
			gone = append(gone, owner)
			s.set(owner, nil)
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, owner := range gone {
		errs = append(errs, s.removeFile(owner))
		s.changed(owner)
	}
	return errors.Join(errs...)
}

// removeFile removes the file of a former member; that there is none is no error.
func (s *Store) removeFile(owner identity.PeerID) error {
	if err := os.Remove(s.path(owner)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return agentbox.Errorf(agentbox.Missing, "cannot remove the catalogue of a former member: %w", err)
	}
	return nil
}

// isFormer tells whether a peer is no member any more. One whose membership has only expired is: it
// may be renewed.
func isFormer(list identity.List, owner identity.PeerID) bool {
	m, ok := list.Member(owner)
	return !ok || m.Revoked || m.Left
}

func (s *Store) changed(owner identity.PeerID) {
	if s.cfg.Changed != nil {
		s.cfg.Changed(owner)
	}
}

// Found is a record with its owner.
type Found struct {
	Owner identity.PeerID
	Record
}

// Lookup finds records of a kind by key or alias in the catalogues of members, from memory, the
// lowest PeerID first. It does not look at our own. The caller decides whether to trust an owner.
func (s *Store) Lookup(k Kind, key string) []Found {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var out []Found
	for _, p := range s.index[id{k, key}] {
		if s.list.Admits(p.owner, now) {
			out = append(out, Found{p.owner, s.peers[p.owner].record(p.id)})
		}
	}
	slices.SortFunc(out, func(a, b Found) int { return a.Owner.Compare(b.Owner) })
	return out
}

// Holders lists the members whose catalogues name a manifest, and who thus have at least a part of
// its blob. We are not among them.
func (s *Store) Holders(manifest agentbox.Digest) []identity.PeerID {
	var out []identity.PeerID
	for _, f := range s.Lookup(holderKind, manifest.Hex()) {
		out = append(out, f.Owner)
	}
	return slices.Compact(out)
}

// catalogueOf returns a catalogue as it is now, ours too; nil for one of which we know nothing.
func (s *Store) catalogueOf(owner identity.PeerID) *set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owner == s.self {
		return s.own
	}
	return s.peers[owner]
}

// Records lists a peer's records that this build understands, in the order of kinds and keys, with
// its head; our own too. It is false for an unknown peer.
func (s *Store) Records(owner identity.PeerID) (Head, []Record, bool) {
	got := s.catalogueOf(owner)
	if got == nil {
		return Head{}, nil, false
	}
	return got.head, sorted(got.understood()), true
}

// Counters returns the live counters.
func (s *Store) Counters() *Counters { return &s.counters }

// Close ends fetching and serving, and waits for the former. Every change has been written already.
func (s *Store) Close() error {
	s.cfg.Node.Handle(wire.Catalogue, nil)
	s.stop()
	s.tasks.Close()
	return nil
}
