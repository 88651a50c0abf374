package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/procfs"
)

// watch looks at the machine ten times a second while samples are taken, so that each can be
// attributed. It is safe for concurrent use.
type watch struct {
	proc procfs.FS
	find func() []int // the processes of boxes

	mutex   sync.Mutex
	history []reading // the last of them, oldest first
	points  []Point
	begun   time.Time
	boxes   []int
	stop    context.CancelFunc
	stopped sync.WaitGroup
}

const (
	watchEvery = 100 * time.Millisecond
	// lookEvery is how often it looks for processes of boxes, which means listing /proc.
	lookEvery = time.Second
	// maxHistory is enough for a sample of WorkLimit.
	maxHistory = int(WorkLimit/watchEvery) + 100
	// maxPoints bounds the timeline of a report. A longer one loses every other point.
	maxPoints = 2000
)

// Point is a moment of the timeline of a run. Parts are those of Load, since the point before.
type Point struct {
	At    float64 `json:"at"` // seconds since the first
	CPU   float64 `json:"cpu"`
	Steal float64 `json:"steal"`
	Wait  float64 `json:"iowait"`
	Stall float64 `json:"stall"` // the largest of Load.Stalled
	Boxes float64 `json:"boxes"` // CPUs
}

// newWatch begins to watch the boxes whose processes mention text. The caller ends it.
func newWatch(ctx context.Context, text string) (*watch, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, fmt.Errorf("the pressure on this machine is not measured: %w", err)
	}
	w := &watch{proc: proc, begun: time.Now(), find: (&finder{proc: proc, text: text}).find}
	ctx, w.stop = context.WithCancel(ctx)
	w.stopped.Go(func() { w.run(ctx) })
	return w, nil
}

func (w *watch) end() {
	w.stop()
	w.stopped.Wait()
}

// run looks until the context ends.
func (w *watch) run(ctx context.Context) {
	look, tick := time.Time{}, time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if time.Since(look) > lookEvery {
			w.refresh()
			look = time.Now()
		}
		w.now()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *watch) refresh() {
	found := w.find()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.boxes = found
}

func (w *watch) now() reading {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	r := read(w.proc, w.boxes)
	if n := len(w.history); n > 0 {
		w.addPoint(w.history[n-1], r)
	}
	if w.history = append(w.history, r); len(w.history) > maxHistory {
		w.history = append([]reading(nil), w.history[maxHistory/2:]...)
	}
	return r
}

func (w *watch) addPoint(from, to reading) {
	l, stall := between(from, to, runtime.NumCPU()), 0.0
	for _, v := range l.Stalled {
		stall = max(stall, v)
	}
	w.points = append(w.points, Point{At: ratio(to.at.Sub(w.begun).Seconds(), 1), CPU: l.CPU, Steal: l.Steal, Wait: l.IOWait, Stall: stall, Boxes: l.Box.CPUs})
	if len(w.points) < maxPoints {
		return
	}
	for i := range maxPoints / 2 {
		w.points[i] = w.points[2*i]
	}
	w.points = w.points[:maxPoints/2]
}

// timeline returns the points so far.
func (w *watch) timeline() []Point {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Clone(w.points)
}

// last returns what happened in the time of a sample that has just ended.
func (w *watch) last(ms float64) Load {
	end := w.now()
	begin := end.at.Add(-time.Duration(ms * float64(time.Millisecond)))
	w.mutex.Lock()
	defer w.mutex.Unlock()
	from, least := w.history[0], end.available
	for _, r := range w.history {
		if r.at.After(begin) {
			least = min(least, r.available)
		} else {
			from = r
		}
	}
	l := between(from, end, runtime.NumCPU())
	l.Available = min(l.Available, least)
	return l
}

// whyNoPressure says why Load.Stalled is missing; "" where it is there.
func whyNoPressure(r reading) string {
	if len(r.stalled) > 0 {
		return ""
	}
	return "this kernel counts no pressure (PSI): it needs CONFIG_PSI, and psi=1 on its command line"
}
