package cli

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"agentbox/agentbox"
)

// progress shows what a long call is doing, on standard error: a line per finished step, and on a
// terminal one more line that says what is under way, how far it is and for how long. Events of
// steps that run side by side take turns in that line. close has to be called before anything else
// is printed there.
type progress struct {
	out      *os.File
	quiet    bool
	terminal bool
	color    bool

	// mu guards what is below, since events and the ticker come from different goroutines, and
	// keeps lines whole.
	mu     sync.Mutex
	drawn  bool
	latest time.Time      // when the line was drawn
	now    agentbox.Event // what is under way; its Step is "" for nothing
	since  time.Time
	stop   func() // ends what redraws the line
}

const (
	redraw  = 100 * time.Millisecond // the least between two drawings of the line that is under way
	ticking = time.Second            // the most
	patient = 2 * time.Second        // after which the line says for how long
)

// newProgress is progress the way the user asked for: none with --quiet, finished steps only where
// standard error is no terminal or a dumb one, no colour where NO_COLOR says so.
func (a *app) newProgress() *progress {
	terminal := term.IsTerminal(int(a.stderr.Fd())) && os.Getenv("TERM") != "dumb"
	return &progress{out: a.stderr, quiet: a.quiet, terminal: terminal, color: terminal && os.Getenv("NO_COLOR") == ""}
}

// event shows an event. It is an agentbox.Progress, so several goroutines may call it.
func (p *progress) event(e agentbox.Event) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Note:
		p.clear()
		fmt.Fprintln(p.out, p.dim(oneLine(noteText(e))))
	case e.Ended:
		p.clear()
		if e.Step == p.now.Step {
			p.now = agentbox.Event{}
		}
		fmt.Fprintf(p.out, "%s %-10s %8s  %s\n", p.tick(), e.Step, tookText(e.Took), oneLine(e.Detail))
	case p.terminal:
		// Another detail of the same step is the same wait.
		if e.Step != p.now.Step {
			p.since = time.Now()
		}
		p.now = e
		// Bytes are reported thousands of times a second.
		if time.Since(p.latest) > redraw {
			p.draw()
		}
		if p.stop == nil {
			p.stop = p.keepDrawing()
		}
	}
}

// keepDrawing draws the line now and then: a step that says nothing for a minute is seen to be
// alive. It returns what ends that, and waits for it; the caller of stop must not hold mu.
func (p *progress) keepDrawing() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(ticking)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				p.mu.Lock()
				p.draw()
				p.mu.Unlock()
			}
		}
	}()
	return func() { close(quit); <-done }
}

// close removes the line that was under way. It may be called again, and after it nothing is drawn.
func (p *progress) close() {
	p.mu.Lock()
	stop := p.stop
	p.stop = nil
	p.mu.Unlock()
	if stop != nil {
		stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// clear takes back the line that is under way, if it is on the screen. The caller holds mu.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

// draw draws the line that is under way. The caller holds mu.
func (p *progress) draw() {
	if p.now.Step == "" {
		return
	}
	width, _, err := term.GetSize(int(p.out.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	p.latest = time.Now()
	p.clear()
	p.drawn = true
	fmt.Fprint(p.out, underway(p.now, time.Since(p.since), width))
}

// underway is that line. It is shorter than the terminal is wide: one that wraps could not be
// removed.
func underway(e agentbox.Event, taken time.Duration, width int) string {
	tail := share(e)
	if taken > patient {
		tail += "  " + taken.Truncate(time.Second).String()
	}
	head := cut(fmt.Sprintf("  %-10s %s", e.Step, oneLine(e.Detail)), max(1, width-1-len(tail)))
	return cut(head+tail, max(1, width-1))
}

// barWidth is the width of a bar, in characters.
const barWidth = 20

// share is a bar and a percentage of what is done, "" where the whole is not known. What an event
// says is held to 0 to 100 %.
func share(e agentbox.Event) string {
	if e.Total <= 0 {
		return ""
	}
	done := min(max(e.Done, 0), e.Total)
	n := int(done * barWidth / e.Total)
	bar := "[====================                    "[:1+n]
	return fmt.Sprintf("  %-*s] %3d%%", barWidth+1, bar, done*100/e.Total)
}

// cut is at most n runes of a text; a longer one ends with an ellipsis.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// tick marks a finished step.
func (p *progress) tick() string {
	if p.color {
		return "\x1b[32m✓\x1b[0m"
	}
	return "-"
}

// dim is text that matters less than the results, where colours are shown.
func (p *progress) dim(s string) string {
	if p.color {
		return "\x1b[2m" + s + "\x1b[0m"
	}
	return s
}
