package agentbox

import "time"

// Event is progress of a long operation: a step began, moved on, or ended.
type Event struct {
	Step   string        `json:"step"`             // what, in the user's words: "image", "template", "workspace", ...
	Detail string        `json:"detail,omitempty"` // on what
	Done   int64         `json:"done,omitempty"`   // of Total, in bytes or items; 0 where unknown
	Total  int64         `json:"total,omitempty"`
	Ended  bool          `json:"ended,omitempty"` // the step is over and took Took
	Took   time.Duration `json:"took,omitempty"`
	Note   bool          `json:"note,omitempty"` // Detail is a line for the user, not a step
}

// Progress receives events; it may be called from several goroutines and never blocks for long.
type Progress func(Event)

// Begin tells that a step began and returns the func that tells it ended.
func (p Progress) Begin(step, detail string) (end func(detail string)) {
	start := time.Now()
	p.send(Event{Step: step, Detail: detail})
	return func(detail string) {
		p.send(Event{Step: step, Detail: detail, Ended: true, Took: time.Since(start)})
	}
}

// Move tells how far a step is: done of total, in bytes or items.
func (p Progress) Move(step, detail string, done, total int64) {
	p.send(Event{Step: step, Detail: detail, Done: done, Total: total})
}

// Say passes a line on to the user.
func (p Progress) Say(line string) { p.send(Event{Note: true, Detail: line}) }

func (p Progress) send(e Event) {
	if p != nil {
		p(e)
	}
}
