package cli

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"agentbox/agentbox"
)

// progress shows what a long call is doing, on standard error: a line per finished step, and on a terminal one more line
// that says what is under way.
type progress struct {
	out      *os.File
	quiet    bool
	terminal bool
	color    bool

	mu     sync.Mutex
	drawn  bool
	latest time.Time
}

// redraw limits how often the line that is under way is drawn.
const redraw = 100 * time.Millisecond

func (a *app) newProgress() *progress {
	terminal := term.IsTerminal(int(a.stderr.Fd())) && os.Getenv("TERM") != "dumb"
	return &progress{out: a.stderr, quiet: a.quiet, terminal: terminal, color: terminal && os.Getenv("NO_COLOR") == ""}
}

func (p *progress) event(e agentbox.Event) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Note:
		p.clear()
		fmt.Fprintln(p.out, p.dim(oneLine(e.Detail)))
	case e.Ended:
		p.clear()
		fmt.Fprintf(p.out, "%s %-10s %8s  %s\n", p.tick(), e.Step, tookText(e.Took), oneLine(e.Detail))
	case p.terminal && time.Since(p.latest) > redraw:
		p.latest = time.Now()
		p.clear()
		p.drawn = true
		fmt.Fprintf(p.out, "  %-10s %s%s", e.Step, cut(oneLine(e.Detail), 60), share(e))
	}
}

// close removes the line that was under way.
func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

const barWidth = 20

func share(e agentbox.Event) string {
	if e.Total <= 0 {
		return ""
	}
	done := min(max(e.Done, 0), e.Total)
	n := int(done * barWidth / e.Total)
	bar := "[====================                    "[:1+n]
	return fmt.Sprintf("  %-*s] %3d%%", barWidth+1, bar, done*100/e.Total)
}

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

func (p *progress) dim(s string) string {
	if p.color {
		return "\x1b[2m" + s + "\x1b[0m"
	}
	return s
}
