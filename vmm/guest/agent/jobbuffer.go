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
func (b *jobBuffer) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// write appends a copy of data, and waits for the reader as long as mustWait says. kind is
// protocol.JobOutput or JobStderr. When ending is closed it drops data.
func (b *jobBuffer) write(kind byte, data []byte, ending <-chan struct{}) {
	for {
		b.mu.Lock()
		if !b.mustWait(len(data)) {
			b.append(kind, data)
			b.mu.Unlock()
			return
		}
		wake, timeout := b.changed, make(<-chan time.Time)
		if !b.blocking {
			timeout = time.After(stallTimeout)
		}
		b.mu.Unlock()
		select {
		case <-wake:
		case <-timeout:
			b.stall()
		case <-ending:
			return
		}
	}
}

// mustWait reports whether n more bytes have to wait, because they would displace bytes that a
// reader is about to take. Nothing waits for a reader that left or stalled, nor does a flood. mu is
// held.
func (b *jobBuffer) mustWait(n int) bool {
	unsent := b.end - min(b.sent, b.end)
	// Nobody to wait for, or room for it all.
	if b.readers == 0 && b.hadReader || int(min(unsent, maxJobBuffer))+n <= maxJobBuffer {
		return false
	}
	return b.blocking || !b.stalled && !b.exceedsRate()
}

// exceedsRate reports whether the job has written more than its share: a token bucket of jobBurst
// bytes, refilled by jobRefill. mu is held.
func (b *jobBuffer) exceedsRate() bool {
	now := time.Now()
	b.credit = min(b.credit+now.Sub(b.at).Seconds()*jobRefill, jobBurst)
	b.at = now
	return b.credit <= 0
}

// append keeps data and drops the oldest bytes beyond the bound. Adjacent chunks of one kind are
// merged up to the size of a frame, or a job that writes byte by byte would have a chunk for each.
// mu is held.
func (b *jobBuffer) append(kind byte, data []byte) {
	b.credit -= float64(len(data))
	last := len(b.chunks) - 1
	// A job that writes byte by byte would otherwise have a chunk for each.
	if last >= 0 && b.chunks[last].kind == kind && len(b.chunks[last].data)+len(data) <= protocol.MaxJobFrame {
		b.chunks[last].data = append(b.chunks[last].data, data...)
	} else {
		b.chunks = append(b.chunks, jobChunk{kind, b.end, append([]byte(nil), data...)})
	}
	b.end += uint64(len(data))
	b.held += len(data)
	b.shrink()
	b.notify()
}

// shrink drops the oldest bytes beyond the bound. If the reader has a part of the oldest chunk,
// that part goes first, as the rest may fit. mu is held.
func (b *jobBuffer) shrink() {
	for b.held > maxJobBuffer {
		oldest := &b.chunks[0]
		n := uint64(len(oldest.data))
		if b.readers > 0 && b.sent > oldest.at && b.sent < oldest.at+n {
			n = b.sent - oldest.at
		}
		b.held -= int(n)
		oldest.at, oldest.data = oldest.at+n, oldest.data[n:]
		if len(oldest.data) == 0 {
			b.chunks = b.chunks[1:]
		}
	}
}

// stall records that the reader takes nothing, so that only a blocking job still waits for it.
func (b *jobBuffer) stall() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stalled = true
}

// finish records how the job ended. Everything that it wrote must be in the buffer by then.
func (b *jobBuffer) finish(exit protocol.JobExit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.exit = &exit
	b.notify()
}

// attach counts a reader that has everything before from. It begins impatient.
func (b *jobBuffer) attach(from uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers, b.hadReader = b.readers+1, true
	b.sent, b.blocking, b.stalled = min(from, b.end), false, false
	b.notify()
}

// detach counts a reader out. The last one ends the patience.
func (b *jobBuffer) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers--; b.readers == 0 {
		b.blocking = false
	}
	b.notify()
}

// setBlocking sets whether the job waits for its reader, so that no output is lost.
func (b *jobBuffer) setBlocking(blocking bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blocking = blocking
	b.notify()
}

// take waits for output at or after from and copies it into buf. If got.at is after from, the bytes
// between are lost. got.data is a part of buf. exit is set instead when all was taken; ok is false
// when stop was closed.
func (b *jobBuffer) take(from uint64, buf []byte, stop <-chan struct{}) (got jobChunk, exit *protocol.JobExit, ok bool) {
	for {
		b.mu.Lock()
		got, found := b.next(from, buf)
		exit, wake := b.exit, b.changed
		b.mu.Unlock()
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
func (b *jobBuffer) next(from uint64, buf []byte) (jobChunk, bool) {
	for _, c := range b.chunks {
		if c.at+uint64(len(c.data)) <= from {
			continue
		}
		skip := max(from, c.at) - c.at
		n := copy(buf, c.data[skip:])
		b.sent, b.stalled = c.at+skip+uint64(n), false
		b.notify()
		return jobChunk{c.kind, c.at + skip, buf[:n]}, true
	}
	return jobChunk{}, false
}

// pause is how long the reader waits after n bytes of a flood, so that others get their turn.
func (b *jobBuffer) pause(n int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blocking || b.exit != nil || !b.exceedsRate() {
		return 0
	}
	return time.Duration(n) * time.Second / floodRate
}

// status is the position behind the last byte of output, and whether the job has ended.
func (b *jobBuffer) status() (end uint64, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end, b.exit != nil
}
