package night

import (
	"time"

	"agentbox/agentbox/fleet"
	"agentbox/agentbox/resources"
	"agentbox/mesh/identity"
)

// again is how long a machine leaves an offer alone that it did not get, as fleet.Worker does.
const again = 30 * time.Second

// workers has each machine do what it does in a step, in another order each time.
func (w *world) workers() {
	for _, i := range w.random.Perm(len(w.machines)) {
		m := w.machines[i]
		if !w.now.Before(m.until) {
			w.turn(m)
		}
		switch {
		case !m.awake:
		case m.runs != nil:
			w.goOn(m)
		default:
			w.look(m)
		}
	}
}

// turn has a machine fall asleep, or wake up.
func (w *world) turn(m *machine) {
	m.awake = !m.awake
	m.until = w.now.Add(w.span())
	if t := m.runs; t != nil && !m.awake && w.random.Float64() >= w.cfg.Silent {
		if t.lease.Holds(m.id, m.fence) && !t.ended {
			t.ran = m.had + w.now.Sub(m.began)
			t.done = t.ran
			w.end(w.members[t.member], t, false)
		}
		m.runs = nil
	}
	t := m.runs
	switch {
	case t == nil || !t.lease.Holds(m.id, m.fence):
		m.next = w.now
	case m.awake:
		t.heard.Gone, m.next = time.Time{}, w.now // it was called
	default:
		t.heard.Gone = w.now.Add(noticed)
		w.members[t.member].bytes += dialled
	}
}

// goOn has a machine beat, save, and deliver.
func (w *world) goOn(m *machine) {
	t := m.runs
	of := w.members[t.member]
	ran := m.had + w.now.Sub(m.began)
	m.turns.Add(of.id, step)
	if t.lease.Holds(m.id, m.fence) {
		t.ran = ran
	}
	finished := ran >= t.length
	if !finished && w.now.Before(m.next) {
		return
	}
	w.beat(m, of)
	m.next = w.now.Add(fleet.BeatEvery(len(of.held)))
	switch { // what Owner.reply decides
	case !t.lease.Holds(m.id, m.fence) || t.ended:
		m.runs = nil
	case finished:
		t.times++
		t.ended, m.runs = true, nil
		of.left--
		w.out.Done++
		delete(of.held, t)
	default:
		t.heard = fleet.Heard{Last: w.now, Next: fleet.BeatEvery(len(of.held))}
		t.done = max(t.done, ran.Truncate(saved))
	}
}

// beat counts a question on the connection for beats, which may have to be made.
func (w *world) beat(m *machine, of *member) {
	bytes := asked
	if w.now.After(m.lines[of]) {
		bytes += dialled
	}
	m.lines[of] = w.now.Add(line)
	m.bytes += bytes
	of.bytes += bytes
}

// look has a machine ask for an offer.
func (w *world) look(m *machine) {
	var offers []fleet.Offer
	for _, of := range w.members {
		offers = append(offers, of.seen...)
	}
	c := fleet.Candidate{
		Self: m.id, Serves: func(string) bool { return true }, Fits: func(resources.Share) bool { return true },
		Running: map[identity.PeerID]int{}, Turns: &m.turns, Not: m.not,
	}
	o, ok := fleet.Choose(c, offers, w.now)
	if !ok {
		return
	}
	w.out.Claims++
	of := w.members[o.Owner[1]]
	m.bytes += dialled
	of.bytes += dialled
	m.lines[of] = w.now.Add(line) // it is the one for beats, too
	first := of.oldest(1)         // all are alike
	if len(first) == 0 {
		w.out.Vain++
		m.not.Leave(o, w.now.Add(again))
		return
	}
	t := first[0]
	next, err := t.lease.Grant(m.id, "m")
	if err != nil {
		panic(err) // it waits
	}
	t.lease = next
	of.held[t] = true
	t.heard = fleet.Heard{Last: w.now, Next: fleet.BeatEvery(len(of.held))}
	m.turns.Begin(of.id)
	m.runs, m.fence, m.began, m.had, m.next = t, next.Fence, w.now, t.done, w.now.Add(fleet.BeatEvery(len(of.held)))
}

func (w *world) result(took time.Duration) Result {
	r := w.out
	r.Took = took
	var all, shared time.Duration
	for _, m := range w.members {
		r.Owner = max(r.Owner, float64(m.bytes)/took.Seconds())
		for _, t := range m.tasks {
			switch {
			case t.gaveUp:
				r.GaveUp++
			case !t.ended:
				r.Open++
			}
			all += t.length
			if t.times > 1 {
				r.Twice++
			}
		}
	}
	for _, s := range w.shared {
		shared += s
	}
	for _, s := range w.shared {
		r.Shares = append(r.Shares, float64(s)/float64(max(shared, 1)))
	}
	for _, m := range w.machines {
		r.Worker = max(r.Worker, float64(m.bytes)/max(m.online.Seconds(), 1))
	}
	r.Used = float64(w.busy-w.again) / float64(max(w.idle, 1))
	r.Ideal = 2 * all / time.Duration(len(w.machines))
	return r
}
