package fleet

import (
	"cmp"
	"encoding/json"
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
}

func (o Offer) key() offerKey { return offerKey{o.Owner, o.Task, o.Attempt, o.Since.UnixNano()} }

// attemptOf names an attempt since whenever it is offered.
func attemptOf(owner identity.PeerID, task agentbox.TaskID, attempt int) offerKey {
	return offerKey{owner, task, attempt, time.Time{}.UnixNano()}
}

// leftAlone tells whether a machine does not ask for an offer now.
func leftAlone(not map[offerKey]time.Time, o Offer, now time.Time) bool {
	return now.Before(not[o.key()]) || now.Before(not[attemptOf(o.Owner, o.Task, o.Attempt)])
}

// offerKey names an offer. An attempt that somebody gave back is offered since then, and is another one.
type offerKey struct {
	owner   identity.PeerID
	task    agentbox.TaskID
	attempt int
	since   int64
}

// Candidate is a machine that may take one more task.
type Candidate struct {
	Self    identity.PeerID
	Serves  func(owner string) bool // by name
	Fits    func(resources.Share) bool
	Running map[identity.PeerID]int // tasks that it runs, by owner
	Labels  []string
	// Not has offers that it got no lease of, or failed with, until when it does not ask again.
	Not map[offerKey]time.Time
}

// Choose decides which offer a machine asks for; false for none. The owner of whom it runs the fewest
// comes first, then the offer that has waited longest.
func Choose(c Candidate, offers []Offer, now time.Time) (Offer, bool) {
	mine := slices.DeleteFunc(slices.Clone(offers), func(o Offer) bool {
		avoided := slices.Contains(o.Avoid, c.Self) && now.Sub(o.Since) < avoidTime
		return o.Keep || !wants(o.Where, c.Self, c.Labels) || avoided || leftAlone(c.Not, o, now) || !c.Serves(o.Name) || !c.Fits(o.Need)
	})
	if len(mine) == 0 {
		return Offer{}, false
	}
	return slices.MinFunc(mine, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(c.Running[a.Owner], c.Running[b.Owner]), a.Created.Compare(b.Created), a.Owner.Compare(b.Owner))
	}), true
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
