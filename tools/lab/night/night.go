package night

import (
	"math/rand/v2"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/resources"
	"agentbox/mesh/identity"
)

// Config describes a night.
type Config struct {
	Machines int           // that take a task each
	Awake    time.Duration // how long a machine is awake on average, and then asleep as long
	Silent   float64       // how often it falls asleep without a word; else it gives back what it runs
	Members  []Member
	Length   time.Duration // at most
	Shortest time.Duration // task, and the longest: all lengths between are as frequent
	Longest  time.Duration
	Seed     uint64
}

// Member submits tasks.
type Member struct {
	Tasks int
	At    time.Duration // since the beginning
}

// Result is how it went.
type Result struct {
	Done, GaveUp, Open, Twice int
	Took                      time.Duration // until nothing was open
	// Used is the part of the time of machines that were awake, while tasks waited, in which they did what
	// was not done again.
	Used float64
	// Ideal is how long the tasks take if machines do nothing else while they are awake, half of the time.
	Ideal time.Duration
	// Shares are the members' parts of that time while each of them had tasks that waited.
	Shares []float64
	// Changes counts those of catalogues, Claims the questions for an offer and Vain those that got nothing.
	Changes, Claims, Vain int
	// Worker and Owner are bytes per second of the machine that sends and receives most.
	Worker, Owner float64
}

// step is how long a step is; beats have a multiple of it. saved is how often a worker saves a task.
const (
	step  = 2 * time.Second
	saved = 5 * time.Minute
)

// Bytes on the cable, both ways, of a question on a connection of its own, on one that is there, and of the
// news that a catalogue changed, which gossip sends that often; of one record of a catalogue, and of the
// rest of it.
const (
	dialled  = 5200
	asked    = 520
	news     = 180 * 12
	record   = 330
	envelope = 900
)

// noticed is how long gossip takes to miss a machine, line how long a silent connection stays.
const (
	noticed = 20 * time.Second
	line    = 150 * time.Second
)

// task is an attempt at its owner's.
type task struct {
	offer  fleet.Offer
	length time.Duration
	member int
	lease  fleet.Lease
	heard  fleet.Heard
	ran    time.Duration
	done   time.Duration // of that, what a snapshot has
	ended  bool
	gaveUp bool
	times  int // how often a result was taken
}

type member struct {
	id    identity.PeerID
	kind  fleet.Kind // of all its tasks
	tasks []*task
	begin int // of the tasks from which on some are not ended
	left  int // that are not ended
	held  map[*task]bool
	shown fleet.Shown
	seen  []fleet.Offer // what others have of it
	bytes int
}

// waits counts the tasks that nobody has.
func (m *member) waits() int { return m.left - len(m.held) }

// oldest are the first of these.
func (m *member) oldest(most int) (all []*task) {
	for m.begin < len(m.tasks) && m.tasks[m.begin].ended {
		m.begin++
	}
	for _, t := range m.tasks[m.begin:] {
		if len(all) == min(most, m.waits()) {
			break
		}
		if !t.ended && !t.lease.Held() {
			all = append(all, t)
		}
	}
	return all
}

type machine struct {
	id     identity.PeerID
	awake  bool
	until  time.Time // then it falls asleep, or wakes up
	runs   *task
	fence  uint64
	began  time.Time
	had    time.Duration // of the task, when it began
	next   time.Time     // beat
	not    fleet.NotNow
	lines  map[*member]time.Time // until when it has a connection
	turns  fleet.Turns
	bytes  int
	online time.Duration
}

type world struct {
	cfg      Config
	random   *rand.Rand
	now      time.Time
	members  []*member
	machines []*machine
	out      Result
	idle     time.Duration // of machines that were awake while tasks waited
	busy     time.Duration // of these with a task
	again    time.Duration // of what was done again
	shared   []time.Duration
}

// Run simulates a night. The same Config gives the same Result.
func Run(cfg Config) Result {
	w := newWorld(cfg)
	start := w.now
	for w.now.Sub(start) < cfg.Length {
		w.owners(start)
		if w.open() == 0 && w.now.Sub(start) > cfg.Members[len(cfg.Members)-1].At {
			break
		}
		w.workers()
		w.now = w.now.Add(step)
	}
	return w.result(w.now.Sub(start))
}

func newWorld(cfg Config) *world {
	w := &world{cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 7)), now: time.Unix(0, 0), shared: make([]time.Duration, len(cfg.Members))}
	kind := fleet.Kind{Where: fleet.Idle, Need: resources.Share{CPUs: 2, Memory: 4 << 30}}
	for i, m := range cfg.Members {
		one := &member{id: identity.PeerID{1, byte(i)}, shown: fleet.Shown{}, kind: kind, left: m.Tasks, held: map[*task]bool{}}
		for n := range m.Tasks {
			one.tasks = append(one.tasks, w.task(one, i, n))
		}
		w.members = append(w.members, one)
	}
	for i := range cfg.Machines {
		m := &machine{id: identity.PeerID{2, byte(i), byte(i >> 8)}, awake: i%2 == 0, not: fleet.NotNow{}, lines: map[*member]time.Time{}}
		m.until = w.now.Add(w.span())
		w.machines = append(w.machines, m)
	}
	return w
}

func (w *world) task(owner *member, of, n int) *task {
	id := agentbox.TaskID{byte(of), byte(n), byte(n >> 8)}
	created := w.now.Add(w.cfg.Members[of].At + time.Duration(n)*time.Millisecond)
	return &task{
		offer:  fleet.Offer{Owner: owner.id, Name: "member", Task: id, Attempt: 1, Where: owner.kind.Where, Need: owner.kind.Need, Created: created, Since: created},
		length: w.cfg.Shortest + time.Duration(w.random.Int64N(int64(w.cfg.Longest-w.cfg.Shortest))),
		member: of,
	}
}

// span is how long a machine is awake, or asleep.
func (w *world) span() time.Duration {
	return time.Duration(w.random.ExpFloat64() * float64(w.cfg.Awake))
}

func (w *world) open() (left int) {
	for _, m := range w.members {
		left += m.left
	}
	return left
}

// owners ends leases and changes catalogues.
func (w *world) owners(start time.Time) {
	for i, m := range w.members {
		if w.now.Sub(start) < w.cfg.Members[i].At {
			continue
		}
		for t := range m.held {
			if t.heard.Expired(w.now) {
				w.end(m, t, true)
			}
		}
		waiting := map[fleet.Kind][]fleet.Offer{}
		for _, t := range m.oldest(10) {
			fleet.Oldest(waiting, m.kind, t.offer)
		}
		m.shown = m.shown.Next(waiting, nil)
		w.publish(m)
	}
	w.measure()
}

// end takes a task from its worker.
func (w *world) end(m *member, t *task, silent bool) {
	var over bool
	w.again += t.ran - t.done
	t.ran = t.done
	t.lease, over = t.lease.End(silent)
	t.offer.Since = w.now
	delete(m.held, t)
	if over {
		t.ended, t.gaveUp = true, true
		m.left--
	}
}

// publish has everybody who is awake fetch a catalogue that has changed.
func (w *world) publish(m *member) {
	all := m.shown.InTurn()
	if same(all, m.seen) {
		return
	}
	m.seen = all
	w.out.Changes++
	bytes := dialled + envelope + record*len(all)
	for _, other := range w.machines {
		if other.awake {
			other.bytes += bytes + news
			m.bytes += bytes
		}
	}
	m.bytes += news
}

func same(a, b []fleet.Offer) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Task != b[i].Task || !a[i].Since.Equal(b[i].Since) {
			return false
		}
	}
	return true
}

// measure counts the time of a step: who has what of it, if all want some.
func (w *world) measure() {
	all, some := true, false
	for _, m := range w.members {
		all = all && len(m.seen) > 0
		some = some || len(m.seen) > 0
	}
	for _, m := range w.machines {
		if !m.awake {
			continue
		}
		m.online += step
		if some {
			w.idle += step
			if m.runs != nil {
				w.busy += step
			}
		}
		if all && m.runs != nil {
			w.shared[m.runs.member] += step
		}
	}
}

// Office is a night of an office: 500 machines, half of them asleep at any time, a tenth of those without a
// word, and 20,000 tasks of three members, of whom one submits half.
func Office(seed uint64) Config {
	return Config{
		Machines: 500, Awake: time.Hour, Silent: 0.1, Length: 14 * time.Hour, Shortest: time.Minute, Longest: 15 * time.Minute, Seed: seed,
		Members: []Member{{Tasks: 10000}, {5000, 10 * time.Minute}, {5000, time.Hour}},
	}
}
