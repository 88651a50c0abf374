package fleet

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/resources"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
)

// Idle is the value of TaskSpec.Where for any idle machine; Label begins that for those with a label.
const (
	Idle  = "idle"
	Label = "label="
)

// avoidTime is how long an attempt waits for a machine on which none of its task has failed.
const avoidTime = time.Minute

// Offer is an attempt that an owner offers. It travels as the text of a catalogue record, whose key
// is TASK/ATTEMPT.
type Offer struct {
	Owner   identity.PeerID `json:"-"`
	Name    string          `json:"-"` // of the owner
	Task    agentbox.TaskID `json:"-"`
	Attempt int             `json:"-"`
	Where   string          `json:"where"`          // Idle, the ID of a peer, or a Label
	Keep    bool            `json:"keep,omitempty"` // Where is to keep it, and need not be idle
	// Avoid are peers on which earlier attempts failed. For a while after Since, others come first.
	Avoid   []identity.PeerID `json:"avoid,omitempty"`
	Since   time.Time         `json:"since,omitzero"`
	Need    resources.Share   `json:"need"`
	Created time.Time         `json:"created"`
	Image   string            `json:"image,omitempty"` // as Digest.Short; "" if the repository pins none
}

// Candidate is a machine that may take one more task.
type Candidate struct {
	Self    identity.PeerID
	Serves  func(owner string) bool // by name
	Fits    func(resources.Share) bool
	Running map[identity.PeerID]int // tasks that it runs, by owner
	Turns   *Turns                  // what it ran before; nil for nothing
	Labels  []string
	Has     func(image string) bool // an Offer.Image; nil for none
	// Not has offers that it got no lease of, or failed with, until when it does not ask again.
	Not NotNow
}

// Choose decides which offer a machine asks for; false for none. The owner of whom it runs the fewest comes
// first, then the one of whom it ran the least; of owners who are equal, another one at each machine, so
// that a team that is idle does not ask for the same offers. Of one owner, what has waited longest; but of
// what has waited about as long, first that whose image is here.
func Choose(c Candidate, offers []Offer, now time.Time) (Offer, bool) {
	mine := slices.DeleteFunc(slices.Clone(offers), func(o Offer) bool {
		// Since is by the clock of its owner: where that is far from ours, it says nothing.
		avoided := slices.Contains(o.Avoid, c.Self) && now.Sub(o.Since).Abs() < avoidTime
		return o.Keep || !wants(o.Where, c.Self, c.Labels) || avoided || c.Not.leaves(o, now) || !c.Serves(o.Name) || !c.Fits(o.Need)
	})
	if len(mine) == 0 {
		return Offer{}, false
	}
	first := slices.MinFunc(mine, func(a, b Offer) int {
		return cmp.Or(
			cmp.Compare(c.Running[a.Owner], c.Running[b.Owner]), cmp.Compare(c.Turns.of(a.Owner), c.Turns.of(b.Owner)),
			cmp.Compare(rank(c.Self, a.Owner), rank(c.Self, b.Owner)), older(a, b))
	})
	return c.nearest(first, mine), true
}

// asLong is by how much less a task may have waited than the oldest of its owner, and come first.
const asLong = 10 * time.Minute

// nearest is the oldest offer whose image is here, of those of an owner that have waited about as long as the
// first one; else that one. Times of one owner are by one clock.
func (c Candidate) nearest(first Offer, offers []Offer) Offer {
	best, found := first, false
	for _, o := range offers {
		equal := o.Owner == first.Owner && o.Created.Sub(first.Created) <= asLong
		if equal && c.Has != nil && o.Image != "" && (!found || older(o, best) < 0) && c.Has(o.Image) {
			best, found = o, true
		}
	}
	return best
}

// rank orders owners otherwise at each machine.
func rank(self, owner identity.PeerID) uint64 {
	h := fnv.New64a()
	h.Write(self[:])
	h.Write(owner[:])
	return h.Sum64()
}

// Turns is how long a machine ran tasks of each owner. An owner who had none for a while begins
// where the others are: turns are not saved up (start-time fair queueing, Goyal and others, 1996).
type Turns struct {
	used map[identity.PeerID]time.Duration
	now  time.Duration // of the owner who had the last turn
}

func (t *Turns) of(owner identity.PeerID) time.Duration {
	if t == nil {
		return 0
	}
	return max(t.used[owner], t.now)
}

// Begin begins a task of an owner.
func (t *Turns) Begin(owner identity.PeerID) {
	if t.used == nil {
		t.used = map[identity.PeerID]time.Duration{}
	}
	t.now = t.of(owner)
	t.used[owner] = t.now
}

// Add adds how long a task of an owner ran.
func (t *Turns) Add(owner identity.PeerID, ran time.Duration) {
	if t.used == nil {
		t.used = map[identity.PeerID]time.Duration{}
	}
	t.used[owner] += ran
}

// wants tells whether a machine is one of those that may run a task.
func wants(where string, self identity.PeerID, labels []string) bool {
	label, is := strings.CutPrefix(where, Label)
	return where == Idle || where == self.String() || is && slices.Contains(labels, label)
}

// machineKey is the key of the record in which a machine says what it has for tasks of others. Builds
// that do not know it take it for an offer of no task.
const machineKey = "machine"

// Machine is what a machine has for tasks of others, in its own words. It travels as the text of a
// catalogue record.
type Machine struct {
	Name   string   `json:"-"`
	CPUs   int      `json:"cpus"`   // at most, for one task
	Memory int64    `json:"memory"` // bytes
	Labels []string `json:"labels,omitempty"`
	// Against is why it takes none now. That it is busy is left out: it changes all the time.
	Against []api.IdleReason `json:"against,omitempty"`
}

// maxLabels bounds the labels of a machine.
const maxLabels = 8

// record is the machine as its catalogue has it.
func (m Machine) record() catalogue.Record {
	text, _ := json.Marshal(m) // of numbers and texts
	return catalogue.Record{Kind: catalogue.Offer, Key: machineKey, Text: string(text)}
}

// Machines are those that run tasks of others, by name.
func Machines(team Team) (all []Machine) {
	for peer, records := range team.Offers() {
		for _, r := range records {
			m := Machine{Name: team.Name(peer)}
			if r.Key == machineKey && json.Unmarshal([]byte(r.Text), &m) == nil {
				m.Labels = m.Labels[:min(len(m.Labels), maxLabels)]
				for i := range m.Labels {
					m.Labels[i] = agentbox.Printable(m.Labels[i])
				}
				all = append(all, m)
			}
		}
	}
	slices.SortFunc(all, func(a, b Machine) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
