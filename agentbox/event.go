package agentbox

import "time"

// Event is progress of a long operation: a step began, advanced, or ended. Events cross the API
// before the result. They are for people only; code must not base decisions on them.
type Event struct {
	// Step names the step in the user's words: "image", "template", "workspace", ... An event with
	// the same Step and Detail updates the step that is shown.
	Step   string        `json:"step"`
	Detail string        `json:"detail,omitempty"` // what the step works on
	Done   int64         `json:"done,omitempty"`   // of Total, in bytes or items; 0 where unknown
	Total  int64         `json:"total,omitempty"`
	Ended  bool          `json:"ended,omitempty"` // the step is over and took Took
	Took   time.Duration `json:"took,omitempty"`
	Note   bool          `json:"note,omitempty"` // Detail is a line for the user, not a step

	// End and Problem make an event a note, too, for which the client has the words; Detail is ""
	// then. Box is the name of the box concerned, or "" if the problem's own Detail names it.
	End     *End     `json:"end,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
	Box     string   `json:"box,omitempty"`
}

// Progress receives events. It may be called from several goroutines at once, so it does its own
// locking. It must not block for long, because the operation waits for it. A nil Progress is valid
// and drops all events: use its methods, which check for nil, instead of calling it.
type Progress func(Event)

// Begin reports that a step began and returns the func that reports its end. Do not call end if the
// step fails: the error then says what failed.
func (p Progress) Begin(step, detail string) (end func(detail string)) {
	start := time.Now()
	p.send(Event{Step: step, Detail: detail})
	return func(detail string) {
		p.send(Event{Step: step, Detail: detail, Ended: true, Took: time.Since(start)})
	}
}

// Update reports how far a step is: done of total, in bytes or items.
func (p Progress) Update(step, detail string, done, total int64) {
	p.send(Event{Step: step, Detail: detail, Done: done, Total: total})
}

// Note sends a line to the user.
func (p Progress) Note(line string) { p.send(Event{Note: true, Detail: line}) }

// NoteEnd reports why the last machine of a box ended.
func (p Progress) NoteEnd(box string, end End) { p.send(Event{Note: true, Box: box, End: &end}) }

// NoteProblem reports what is wrong with a box. box is its name, or "" if the problem's Detail has
// it.
func (p Progress) NoteProblem(box string, problem Problem) {
	p.send(Event{Note: true, Box: box, Problem: &problem})
}

func (p Progress) send(e Event) {
	if p != nil {
		p(e)
	}
}
