package roster

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/mesh/identity"
)

// Config says whose list it is and where it is kept. Dir, Key and Log are required.
type Config struct {
	Dir string // made if need be
	Key ed25519.PrivateKey
	Log *slog.Logger
	// Changed gets every new list, one after the other, once it is on disk. It may not change the
	// list. It may be nil.
	Changed func(identity.List)
	Now     func() time.Time // the clock of this machine; nil: time.Now
}

// memberLifetime is how long a membership lasts that nobody renews: half a year.
const memberLifetime = 180 * 24 * time.Hour

// Roster is the member list of this machine's team, or none. Its methods may be called
// concurrently.
type Roster struct {
	cfg  Config
	self identity.PeerID

	changing sync.Mutex // held through a change of the list, Changed included

	refused atomic.Uint64 // lists that were forged or too large

	mu sync.Mutex
	// list is the newest one. It is immutable, so it is handed out without the lock.
	list identity.List
	root ed25519.PrivateKey // nil where the team was not made
	// invites has the contents of invites.json, and those that have expired since it was written.
	invites []invitation
}

func (r *Roster) members() string  { return filepath.Join(r.cfg.Dir, "members.json") }
func (r *Roster) rootKey() string  { return filepath.Join(r.cfg.Dir, "root.key") }
func (r *Roster) leftFile() string { return filepath.Join(r.cfg.Dir, "left.json") }

// Open reads what is on disk. Without a list there is no team, which is no error. A list that
// cannot be read is Corrupt: treating it as no list would make this machine trust nobody without
// saying so. There is nothing to close.
func Open(cfg Config) (*Roster, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	r := &Roster{cfg: cfg, self: identity.PeerOf(public(cfg.Key))}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, agentbox.Errorf(agentbox.Missing, "keep the member list: %w", err)
	}
	b, err := os.ReadFile(r.members())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return nil, agentbox.Errorf(agentbox.Missing, "read the member list: %w", err)
	}
	if r.list, err = identity.DecodeList(b, agentbox.Digest{}); err != nil {
		return nil, agentbox.Classify(agentbox.Corrupt, "%s: %w", r.members(), err).WithHint("remove it and join the team again: agentbox mesh join")
	}
	if r.root, err = r.readRoot(r.list.Team()); err != nil {
		return nil, err
	}
	return r, r.readInvites()
}

// readRoot reads the root key of a team; nil where this machine has none. Corrupt for a file that
// is no key, Conflict for the key of another team.
func (r *Roster) readRoot(team agentbox.Digest) (ed25519.PrivateKey, error) {
	seed, err := os.ReadFile(r.rootKey())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, agentbox.Errorf(agentbox.Missing, "read the team's root key: %w", err)
	case len(seed) != ed25519.SeedSize:
		return nil, agentbox.Errorf(agentbox.Corrupt, "%s is not a key of %d bytes", r.rootKey(), ed25519.SeedSize)
	}
	key := ed25519.NewKeyFromSeed(seed)
	if identity.TeamOf(public(key)) != team {
		return nil, agentbox.Errorf(agentbox.Conflict, "%s is the root key of another team", r.rootKey()).WithHint("move it away")
	}
	return key, nil
}

// state returns the newest list, and the root key where this machine has it, else nil.
func (r *Roster) state() (identity.List, ed25519.PrivateKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, r.root
}

// List returns the newest list, the zero one without a team.
func (r *Roster) List() identity.List {
	list, _ := r.state()
	return list
}

// IsRoot reports whether this machine has the team's root key.
func (r *Roster) IsRoot() bool {
	_, root := r.state()
	return root != nil
}

// Refused counts the lists that were refused because they were forged or too large.
func (r *Roster) Refused() uint64 { return r.refused.Load() }

// Init makes a team with this machine as first member, builder and admin, and keeps its root key.
// The root key is written before the list, as a team without it could never change. Exists when
// this machine is in a team.
func (r *Roster) Init(name string) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	if !r.List().Team().IsZero() {
		return agentbox.Errorf(agentbox.Exists, "this machine is in a team already").WithHint("agentbox mesh leave first")
	}
	_, root, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	list := identity.NewList(public(root))
	entry, err := identity.Entry{
		Team: list.Team(), Key: public(r.cfg.Key), Name: name, Roles: []identity.Role{identity.Admin, identity.Builder}, Serial: 1, Issued: r.cfg.Now(),
	}.Sign(root)
	if err != nil {
		return err
	}
	if list, err = list.With(entry); err != nil {
		return err
	}
	if err := durable.WriteFile(r.rootKey(), root.Seed(), 0o600); err != nil {
		return err
	}
	r.setRoot(root)
	if err := r.store(list); err != nil {
		// The key of no team would be taken for damage once this machine is in another team.
		r.setRoot(nil)
		return errors.Join(err, os.Remove(r.rootKey()))
	}
	return nil
}

// setRoot sets the root key that this machine signs with; nil for none.
func (r *Roster) setRoot(key ed25519.PrivateKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.root = key
}

// store makes a list the newest one, on disk first. The caller holds r.changing.
func (r *Roster) store(list identity.List) error {
	b, err := list.Encode()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(r.members(), b, 0o600); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "keep the member list: %w", err)
	}
	r.mu.Lock()
	r.list = list
	r.mu.Unlock()
	if r.cfg.Changed != nil {
		r.cfg.Changed(list)
	}
	return nil
}

// change signs entries and adds them to the list, which is kept if that changed anything. The lock
// is held from the first look at the list on: two changes at once would have the same serial number
// otherwise, and one of them be lost.
func (r *Roster) change(sign func() ([]identity.Entry, error)) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	signed, err := sign()
	if err != nil {
		return err
	}
	old := r.List()
	list, err := old.With(signed...)
	if err != nil || list.Digest() == old.Digest() {
		return err
	}
	return r.store(list)
}

// merge adds entries that somebody else signed to the list, and counts those that are refused.
func (r *Roster) merge(entries ...identity.Entry) error {
	err := r.change(func() ([]identity.Entry, error) { return entries, nil })
	if code := agentbox.CodeOf(err); code == agentbox.Corrupt || code == agentbox.NoSpace {
		r.refused.Add(1)
	}
	return err
}

// Forget removes the team from this machine: list, root key and invitations. Only the proof that it
// left stays (storeLeaving). Config.Changed is not called: whatever uses the list has ended before.
// When a file cannot be removed the others are removed all the same, and the Roster is in no team;
// the next Open finds what is left. The list goes last: the other files are useless without it, and
// in the way of the next team.
func (r *Roster) Forget() error {
	r.changing.Lock()
	defer r.changing.Unlock()
	if err := r.storeLeaving(); err != nil {
		return err
	}
	var errs []error
	for _, name := range []string{r.rootKey(), r.invitesFile(), r.members()} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	r.mu.Lock()
	r.list, r.root, r.invites = identity.List{}, nil, nil
	r.mu.Unlock()
	return errors.Join(errs...)
}

// signer returns the key with which this machine may sign entries about a member: the root key
// where it has that, else its own if it is an admin and the member neither is one nor becomes one.
// NotFound without a team, Conflict otherwise.
func (r *Roster) signer(about identity.Member, makesAdmin bool) (ed25519.PrivateKey, error) {
	list, root := r.state()
	me, _ := list.Member(r.self)
	switch {
	case list.Team().IsZero():
		return nil, NoTeam()
	case root != nil:
		return root, nil
	case !me.Active(r.cfg.Now()) || !me.Has(identity.Admin):
		return nil, agentbox.Errorf(agentbox.Conflict, "this machine is no admin of the team").WithHint("ask one: agentbox mesh peers shows them")
	case makesAdmin || about.Has(identity.Admin):
		return nil, agentbox.Errorf(agentbox.Conflict, "only the machine of `mesh init` adds and removes admins")
	}
	return r.cfg.Key, nil
}

// NoTeam is the error of a command that needs a team.
func NoTeam() error {
	return agentbox.Errorf(agentbox.NotFound, "this machine is in no team").WithHint("agentbox mesh init makes one, agentbox mesh join TOKEN joins one")
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// nextSerial returns a serial number that makes an entry of a signer count: greater than those of
// all entries about the member, whoever signed them. Where other signers have used up the numbers
// of this one it returns its last one, and false: then a revocation still counts, as it does with
// any number, and nothing else does.
func nextSerial(list identity.List, member, signer ed25519.PublicKey) (serial uint64, counts bool) {
	for _, e := range list.Entries() {
		if bytes.Equal(e.Key, member) {
			serial = max(serial, e.Serial)
		}
	}
	last := identity.MaxSerial(list.Team(), signer, member)
	if serial >= last {
		return last, false
	}
	return serial + 1, true
}

// expiry is when a membership ends that begins now, here; zero, never, for admins.
func (r *Roster) expiry(roles []identity.Role) time.Time {
	if slices.Contains(roles, identity.Admin) {
		return time.Time{}
	}
	return r.cfg.Now().Add(memberLifetime)
}
