package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/resources"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
)

// A catalogue travels to every member each time it changes, so it does not change with each attempt that
// somebody takes. It has a few attempts of each kind, which stay in it while others of the kind wait: a
// machine that asks for one of them gets another one like it.
const (
	mostOffered = 256 // of all kinds: a catalogue with more records than it may have says nothing at all
	mostOfKind  = 4
)

// Kind is what is alike for machines of attempts that wait. Those that some machines are to avoid are of a
// kind of their own.
type Kind struct {
	Project, Secrets string
	Where, Image     string
	Keep             bool
	Need             resources.Share
	Only             agentbox.TaskID
}

// kind is the kind of an attempt.
func (o *offered) kind() Kind {
	of := o.offer()
	k := Kind{Project: o.task.Project, Secrets: strings.Join(o.task.Secrets, "\n"), Where: of.Where, Image: of.Image, Keep: of.Keep, Need: of.Need}
	if len(of.Avoid) > 0 {
		k.Only = o.task.ID
	}
	return k
}

func (o *offered) offer() Offer {
	offer := Offer{Task: o.task.ID, Attempt: o.attempt.Number, Where: o.task.Where, Need: o.need, Created: o.task.Created, Avoid: o.avoid, Since: o.since, Image: o.task.Pinned.Short()}
	if keeper := o.lease.Keeper; !keeper.IsZero() {
		offer.Where, offer.Keep = keeper.String(), true
	}
	return offer
}

// Shown is what an owner offers of what waits. Its methods decide without a clock or a network.
type Shown map[Kind][]Offer

// Next is what is offered now that other attempts wait: of a kind of which none was offered, or whose offers
// nobody gets any more, the oldest; the others stay. waiting has the oldest of each kind, in order.
func (s Shown) Next(waiting map[Kind][]Offer, stale map[Kind]bool) Shown {
	next := Shown{}
	for kind, all := range waiting {
		if next[kind] = s[kind]; len(next[kind]) == 0 || stale[kind] {
			next[kind] = all[:min(len(all), mostOfKind)]
		}
	}
	return next
}

// InTurn are the offers, at most as many as a catalogue may have: first the oldest of each kind, then the
// second of each, and so on. Thousands for which there is no machine leave the others their turn.
func (s Shown) InTurn() (all []Offer) {
	kinds := make([][]Offer, 0, len(s))
	for _, offers := range s {
		kinds = append(kinds, offers)
	}
	slices.SortFunc(kinds, func(a, b []Offer) int { return older(a[0], b[0]) })
	for turn := range mostOfKind {
		for _, offers := range kinds {
			if turn < len(offers) && len(all) < mostOffered {
				all = append(all, offers[turn])
			}
		}
	}
	return all
}

// Of is the kind of an attempt that is offered.
func (s Shown) Of(task agentbox.TaskID, attempt int) (Kind, bool) {
	for kind, all := range s {
		if slices.ContainsFunc(all, func(o Offer) bool { return o.Task == task && o.Attempt == attempt }) {
			return kind, true
		}
	}
	return Kind{}, false
}

// older orders attempts as they are run.
func older(a, b Offer) int {
	return cmp.Or(a.Created.Compare(b.Created), bytes.Compare(a.Task[:], b.Task[:]), a.Attempt-b.Attempt)
}

// Oldest adds an attempt to the oldest ones of its kind.
func Oldest(waiting map[Kind][]Offer, kind Kind, o Offer) {
	all := waiting[kind]
	if len(all) == mostOfKind && older(o, all[mostOfKind-1]) > 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(all, o, older)
	all = slices.Insert(all, i, o)
	waiting[kind] = all[:min(len(all), mostOfKind)]
}

// Offers are the records of our catalogue: attempts that nobody has, or like which there are others.
func (o *Owner) Offers() (all []catalogue.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting := map[Kind][]Offer{}
	o.leases = 0
	for _, at := range o.open {
		if at.lease.Held() {
			o.leases++
		}
		if at.waits() {
			Oldest(waiting, at.kind(), at.offer())
		}
	}
	o.shown = o.shown.Next(waiting, o.stale)
	o.stale = nil
	for _, offer := range o.shown.InTurn() {
		if text, err := json.Marshal(offer); err == nil {
			all = append(all, catalogue.Record{Kind: catalogue.Offer, Key: offer.Task.String() + "/" + strconv.Itoa(offer.Attempt), Text: string(text)})
		}
	}
	return all
}

func (o *offered) waits() bool { return !o.lease.Held() && !o.cancelled && !o.finished }

// maxWaiting bounds the attempts that are offered or might be next, each of which takes memory. The others
// wait in the queue; but a few of each kind are always here.
const maxWaiting = maxKept

// Room is how many more attempts like that of a task may wait (task.Remote).
func (o *Owner) Room(t agentbox.Task, need resources.Share, begun int) int {
	next := (&offered{task: t, need: need}).kind()
	o.mu.Lock()
	defer o.mu.Unlock()
	held, alike := 0, 0
	for _, at := range o.open {
		if !at.waits() {
			held++
		} else if at.kind() == next {
			alike++
		}
	}
	return max(maxWaiting-begun+held, mostOfKind-alike)
}

// instead finds an attempt like the one of a claim, which nobody gets any more: the oldest. A build that does
// not know this asks for that one only, and is offered others.
func (o *Owner) instead(q question) (best *offered) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at := o.open[attemptKey{q.Task, q.Attempt}]; at != nil && at.waits() {
		return at
	}
	kind, ok := o.shown.Of(q.Task, q.Attempt)
	if !ok {
		return nil
	}
	if !q.Alike {
		if o.stale == nil {
			o.stale = map[Kind]bool{}
		}
		o.stale[kind] = true
		go o.Changed()
		return nil
	}
	for _, at := range o.open {
		if at.waits() && at.kind() == kind && !slices.Contains(q.Except, at.task.ID) && (best == nil || older(at.offer(), best.offer()) < 0) {
			best = at
		}
	}
	return best
}

// NotNow has offers that a machine does not ask for, until when.
type NotNow map[offerKey]time.Time

// offerKey names an offer. An attempt that somebody gave back is offered since then, and is another one.
type offerKey struct {
	owner   identity.PeerID
	task    agentbox.TaskID
	attempt int
	since   int64
}

func (o Offer) key() offerKey { return offerKey{o.Owner, o.Task, o.Attempt, o.Since.UnixNano()} }

// attemptOf names an attempt since whenever it is offered.
func attemptOf(owner identity.PeerID, task agentbox.TaskID, attempt int) offerKey {
	return offerKey{owner, task, attempt, time.Time{}.UnixNano()}
}

// Leave has a machine not ask for an offer.
func (n NotNow) Leave(o Offer, until time.Time) { n[o.key()] = until }

// Forget has a machine ask for an offer again.
func (n NotNow) Forget(o Offer) { delete(n, o.key()) }

// leaves tells whether a machine does not ask for an offer now.
func (n NotNow) leaves(o Offer, now time.Time) bool {
	return now.Before(n[o.key()]) || now.Before(n[attemptOf(o.Owner, o.Task, o.Attempt)])
}

// maxExcept bounds the tasks of an owner that a machine does not want, in a claim.
const maxExcept = 64

// of are the tasks of an owner that a machine does not want.
func (n NotNow) of(owner identity.PeerID, now time.Time) (all []agentbox.TaskID) {
	for key, until := range n {
		if key.owner == owner && key == attemptOf(owner, key.task, key.attempt) && now.Before(until) && len(all) < maxExcept {
			all = append(all, key.task)
		}
	}
	return all
}
