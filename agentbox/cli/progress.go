package cli

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"agentbox/agentbox"
)

// progress shows on standard error what a long call is doing: one line per finished step and, on a
// terminal, a status line with the current step, how far it is and how long it has taken. Steps
// that run in parallel alternate in the status line. Call close before printing anything else
// there.
type progress struct {
	out      *os.File
	quiet    bool
	terminal bool
	color    bool

	// mu guards the fields below, because events and the ticker come from different goroutines. It
	// also keeps lines whole.
	mu     sync.Mutex
	drawn  bool
	latest time.Time      // when the status line was last drawn
	now    agentbox.Event // the current step; Step is "" if there is none
	since  time.Time
	stop   func() // ends the periodic redraw
}

const (
	minRedraw    = 100 * time.Millisecond // shortest time between two redraws of the status line
	maxRedraw    = time.Second            // longest time between them
	elapsedAfter = 2 * time.Second        // after which the status line shows the elapsed time
)

// newProgress returns progress in the form the user asked for. --quiet shows none. If standard
// error is not a terminal, or a dumb one, only finished steps are shown. NO_COLOR disables colours.
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
		// A new detail of the same step continues the same wait.
		if e.Step != p.now.Step {
			p.since = time.Now()
		}
		p.now = e
		// Bytes are reported thousands of times a second.
		if time.Since(p.latest) > minRedraw {
			p.draw()
		}
		if p.stop == nil {
			p.stop = p.startRedrawing()
		}
	}
}

// startRedrawing redraws the status line every maxRedraw in a goroutine, so that the elapsed time of
// a step without events advances. stop ends the goroutine and waits for it; its caller must not hold
// mu, which the goroutine takes.
func (p *progress) startRedrawing() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(maxRedraw)
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

// close removes the status line; nothing is drawn afterwards. It may be called more than once.
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

// clear erases the status line if it is on the screen. The caller holds mu.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

// draw draws the status line. The caller holds mu.
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
	fmt.Fprint(p.out, statusLine(p.now, time.Since(p.since), width))
}

// statusLine returns the text of the status line. It is narrower than the terminal, because a line
// that wraps could not be erased.
func statusLine(e agentbox.Event, taken time.Duration, width int) string {
	tail := progressBar(e)
	if taken > elapsedAfter {
		tail += "  " + taken.Truncate(time.Second).String()
	}
	head := cut(fmt.Sprintf("  %-10s %s", e.Step, oneLine(e.Detail)), max(1, width-1-len(tail)))
	return cut(head+tail, max(1, width-1))
}

// barWidth is the width of a bar, in characters.
const barWidth = 20

// progressBar returns a bar and a percentage, or "" if the total is unknown. It clamps the values of an
// event to 0 to 100 %.
func progressBar(e agentbox.Event) string {
	if e.Total <= 0 {
		return ""
	}
	done := min(max(e.Done, 0), e.Total)
	n := int(done * barWidth / e.Total)
	bar := "[====================                    "[:1+n]
	return fmt.Sprintf("  %-*s] %3d%%", barWidth+1, bar, done*100/e.Total)
}

// cut returns at most n runes of a text. A longer text ends with an ellipsis.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func (p *progress) tick() string {
	if p.color {
		return "\x1b[32m✓\x1b[0m"
	}
	return "-"
}

// dim returns text that is less important than the results, dimmed where colours are shown.
func (p *progress) dim(s string) string {
	if p.color {
		return "\x1b[2m" + s + "\x1b[0m"
	}
	return s
}
