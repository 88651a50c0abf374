//go:build linux

package agent

import (
	"sync"
	"time"

	"agentbox/vmm/guest/protocol"
)

// How much of a job's output the guest keeps, and how long a job waits for the host to take it.
const (
	maxJobBuffer = 1 << 20         // bytes of one job; the oldest go first
	jobBurst     = 16 << 20        // bytes that a job may write at once before it can lose some of them
	jobRefill    = 256 << 10       // bytes a second of that which come back
	floodRate    = 4 << 20         // bytes a second of a flood that the host gets
	stallTimeout = 2 * time.Second // for a host that is connected and takes nothing
)

// jobBuffer is the latest output of a job. Its writer never waits for long: while the host is away
// or the job floods, the oldest bytes are dropped. A blocking reader makes the job wait instead, as
// a pipe would. Positions count the bytes of output from the start; the host names the position
// that it has and goes on from there. mu guards everything. put and take wait for changed, without
// the lock.
type jobBuffer struct {
	mu        sync.Mutex
	changed   chan struct{} // closed, and replaced, whenever something below changes
	chunks    []jobChunk
	held      int    // bytes in chunks
	end       uint64 // position behind the last byte
	sent      uint64 // position behind the last byte that the reader took
	readers   int
	hadReader bool // there was a reader; before the first, which is on its way, output waits
	blocking  bool
	stalled   bool              // the reader has taken nothing for stallTimeout, and nothing since
	exit      *protocol.JobExit // set when no more output comes

	credit float64 // bytes the job may still write before it exceeds its rate
	at     time.Time
}

type jobChunk struct {
	kind byte
	at   uint64
	data []byte
}

func newJobBuffer() *jobBuffer {
	return &jobBuffer{changed: make(chan struct{}), credit: jobBurst, at: time.Now()}
}

// notify wakes everybody who waits; mu is held.
func (j *jobBuffer) notify() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// write appends a copy of data, and waits for the reader as long as mustWait says. kind is
// protocol.JobOutput or JobStderr. When ending is closed it drops data.
func (j *jobBuffer) write(kind byte, data []byte, ending <-chan struct{}) {
	for {
		j.mu.Lock()
		if !j.mustWait(len(data)) {
			j.append(kind, data)
			j.mu.Unlock()
			return
		}
		wake, timeout := j.changed, make(<-chan time.Time)
		if !j.blocking {
			timeout = time.After(stallTimeout)
		}
		j.mu.Unlock()
		select {
		case <-wake:
		case <-timeout:
			j.stall()
		case <-ending:
			return
		}
	}
}

// mustWait reports whether n more bytes have to wait, because they would displace bytes that a
// reader is about to take. Nothing waits for a reader that left or stalled, nor does a flood. mu is
// held.
func (j *jobBuffer) mustWait(n int) bool {
	unsent := j.end - min(j.sent, j.end)
	// Nobody to wait for, or room for it all.
	if j.readers == 0 && j.hadReader || int(min(unsent, maxJobBuffer))+n <= maxJobBuffer {
		return false
	}
	return j.blocking || !j.stalled && !j.exceedsRate()
}

// exceedsRate reports whether the job has written more than its share: a token bucket of jobBurst
// bytes, refilled by jobRefill. mu is held.
func (j *jobBuffer) exceedsRate() bool {
	now := time.Now()
	j.credit = min(j.credit+now.Sub(j.at).Seconds()*jobRefill, jobBurst)
	j.at = now
	return j.credit <= 0
}

// append keeps data and drops the oldest bytes beyond the bound. Adjacent chunks of one kind are
// merged up to the size of a frame, or a job that writes byte by byte would have a chunk for each.
// mu is held.
func (j *jobBuffer) append(kind byte, data []byte) {
	j.credit -= float64(len(data))
	last := len(j.chunks) - 1
	// A job that writes byte by byte would otherwise have a chunk for each.
	if last >= 0 && j.chunks[last].kind == kind && len(j.chunks[last].data)+len(data) <= protocol.MaxJobFrame {
		j.chunks[last].data = append(j.chunks[last].data, data...)
	} else {
		j.chunks = append(j.chunks, jobChunk{kind, j.end, append([]byte(nil), data...)})
	}
	j.end += uint64(len(data))
	j.held += len(data)
	j.shrink()
	j.notify()
}

// shrink drops the oldest bytes beyond the bound. If the reader has a part of the oldest chunk,
// that part goes first, as the rest may fit. mu is held.
func (j *jobBuffer) shrink() {
	for j.held > maxJobBuffer {
		oldest := &j.chunks[0]
		n := uint64(len(oldest.data))
		if j.readers > 0 && j.sent > oldest.at && j.sent < oldest.at+n {
			n = j.sent - oldest.at
		}
		j.held -= int(n)
		oldest.at, oldest.data = oldest.at+n, oldest.data[n:]
		if len(oldest.data) == 0 {
			j.chunks = j.chunks[1:]
		}
	}
}

// stall records that the reader takes nothing, so that only a blocking job still waits for it.
func (j *jobBuffer) stall() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stalled = true
}

// finish records how the job ended. Everything that it wrote must be in the buffer by then.
func (j *jobBuffer) finish(exit protocol.JobExit) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.exit = &exit
	j.notify()
}

// attach counts a reader that has everything before from. It begins impatient.
func (j *jobBuffer) attach(from uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.readers, j.hadReader = j.readers+1, true
	j.sent, j.blocking, j.stalled = min(from, j.end), false, false
	j.notify()
}

// detach counts a reader out. The last one ends the patience.
func (j *jobBuffer) detach() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.readers--; j.readers == 0 {
		j.blocking = false
	}
	j.notify()
}

// setBlocking sets whether the job waits for its reader, so that no output is lost.
func (j *jobBuffer) setBlocking(blocking bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.blocking = blocking
	j.notify()
}

// take waits for output at or after from and copies it into buf. If got.at is after from, the bytes
// between are lost. got.data is a part of buf. exit is set instead when all was taken; ok is false
// when stop was closed.
func (j *jobBuffer) take(from uint64, buf []byte, stop <-chan struct{}) (got jobChunk, exit *protocol.JobExit, ok bool) {
	for {
		j.mu.Lock()
		got, found := j.next(from, buf)
		exit, wake := j.exit, j.changed
		j.mu.Unlock()
		switch {
		case found:
			return got, nil, true
		case exit != nil:
			return jobChunk{}, exit, true
		}
		select {
		case <-wake:
		case <-stop:
			return jobChunk{}, nil, false
		}
	}
}

// next is take without waiting; mu is held. It lets a writer go on.
func (j *jobBuffer) next(from uint64, buf []byte) (jobChunk, bool) {
	for _, c := range j.chunks {
		if c.at+uint64(len(c.data)) <= from {
			continue
		}
		skip := max(from, c.at) - c.at
		n := copy(buf, c.data[skip:])
		j.sent, j.stalled = c.at+skip+uint64(n), false
		j.notify()
		return jobChunk{c.kind, c.at + skip, buf[:n]}, true
	}
	return jobChunk{}, false
}

// pause is how long the reader waits after n bytes of a flood, so that others get their turn.
func (j *jobBuffer) pause(n int) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.blocking || j.exit != nil || !j.exceedsRate() {
		return 0
	}
	return time.Duration(n) * time.Second / floodRate
}

// status is the position behind the last byte of output, and whether the job has ended.
func (j *jobBuffer) status() (end uint64, ended bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.end, j.exit != nil
}
