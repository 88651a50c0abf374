package job

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/vmm/guest/protocol"
)

// client is attached to a job. The goroutine of Serve writes to the channel (write), a second one
// reads requests and a third input; the goroutine that follows the job appends to queue. mu guards
// the fields below it, and opts and ch until an expected client has arrived. Nothing is written to
// the channel while mu is held: a client that does not read must not hold up the job, unless it
// asked for that (JobAttach.Whole).
type client struct {
	opts environment.JobAttach
	ch   ssh.Channel

	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, whenever something below changes
	queue   []chunk
	queued  int    // bytes in queue
	dropped uint64 // bytes dropped because the client was too slow
	end     *End
	closed  bool

	expected bool // it is the client that was expected; for Serve alone
}

// chunk is output of one kind: protocol.JobOutput or protocol.JobStderr.
type chunk struct {
	kind byte
	data []byte
}

// maxQueue is how far a client may fall behind its job, in bytes.
const maxQueue = 1 << 20

// Serve attaches a client: it is the handler of environment.AttachChannel. It returns when the
// client has left, the job has ended or ctx is done; by then its goroutines have ended. An unknown
// job is refused with a reason.
func (h *Hub) Serve(ctx context.Context, nch ssh.NewChannel) {
	// A client is trusted no more than a guest.
	var opts environment.JobAttach
	if err := json.Unmarshal(nch.ExtraData(), &opts); err != nil {
		nch.Reject(ssh.ConnectionFailed, "agentbox: malformed request")
		return
	}
	id, err := agentbox.ParseJobID(opts.Job)
	if err == nil {
		err = h.awaitReady(ctx)
	}
	var j *followedJob
	if err == nil {
		j = h.started(ctx, id)
	}
	if err != nil || j == nil {
		nch.Reject(ssh.ConnectionFailed, "there is no job "+printable(opts.Job))
		return
	}
	ch, requests, err := nch.Accept()
	if err != nil {
		return
	}
	c := j.addClient(opts, ch)
	defer context.AfterFunc(ctx, c.close)()
	var work sync.WaitGroup
	work.Go(func() { j.clientRequests(c, requests) })
	work.Go(func() { j.clientInput(c) })
	c.write()
	ch.Close()
	j.removeClient(c)
	if c.expected {
		close(j.served)
	}
	work.Wait()
}

// expectTimeout is how long after its start a job waits for the client that is expected, if it has
// written more than maxQueue bytes. A client attaches right after the start; one that takes longer
// has most likely ended. A task waits as long for its holder to come back.
const expectTimeout = 30 * time.Second

// expect keeps the output for a client that has not attached yet. It is for a command that is
// started and attached to in two steps: nothing may be lost between them. After expectTimeout the
// job no longer waits for that client, as a terminal multiplexer waits for none: if it attaches
// after all, it gets the last maxQueue bytes and learns how much was dropped.
func (fj *followedJob) expect() {
	fj.expected = &client{opts: environment.JobAttach{Whole: true}, changed: make(chan struct{})}
	fj.served = make(chan struct{})
	fj.clients = append(fj.clients, fj.expected)
}

// awaitServed waits until the client that is expected has left, with all output if it wanted it, and no
// longer than expectTimeout for one that does not attach. Nobody may take the job's box away before.
func (fj *followedJob) awaitServed(ctx context.Context) {
	if fj.served == nil {
		return
	}
	late := time.NewTimer(expectTimeout)
	defer late.Stop()
	for {
		select {
		case <-fj.served:
			return
		case <-fj.hub.ctx.Done():
			return
		case <-ctx.Done():
			return
		case <-late.C:
			fj.mu.Lock()
			missing := fj.expected != nil
			fj.mu.Unlock()
			if missing {
				return
			}
		}
	}
}

// stopExpecting lets the job go on without the expected client, unless that has attached.
func (fj *followedJob) stopExpecting() {
	fj.mu.Lock()
	if c := fj.expected; c != nil {
		c.mu.Lock()
		c.opts.Whole = false
		c.notify()
		c.mu.Unlock()
	}
	fj.mu.Unlock()
	fj.sendFlowControl()
}

// addClient adds a client. The expected client sees everything; any other sees what is on the
// screen, and what follows.
func (fj *followedJob) addClient(opts environment.JobAttach, ch ssh.Channel) *client {
	fj.mu.Lock()
	c := fj.expected
	if c != nil && opts.Whole {
		fj.expected, c.expected = nil, true
		c.connectExpected(opts, ch)
	} else {
		c = &client{opts: opts, ch: ch, changed: make(chan struct{}), end: fj.end}
		if opts.Replay {
			c.enqueueCopy(protocol.JobOutput, fj.screen.replay(opts.Rows))
		}
		fj.clients = append(fj.clients, c)
	}
	fj.mu.Unlock()
	fj.resize(opts.Columns, opts.Rows)
	fj.sendFlowControl()
	return c
}

func (c *client) connectExpected(opts environment.JobAttach, ch ssh.Channel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts, c.ch = opts, ch
	if c.closed { // the hub stopped following the job before it attached
		ch.Close()
	}
}

// removeClient removes a client, and tells the guest whether the job still has to wait for one.
func (fj *followedJob) removeClient(c *client) {
	c.close()
	fj.mu.Lock()
	fj.clients = slices.DeleteFunc(fj.clients, func(other *client) bool { return other == c })
	fj.mu.Unlock()
	fj.sendFlowControl()
}

// closeClients disconnects all clients: the hub stops following the job.
func (fj *followedJob) closeClients() {
	fj.mu.Lock()
	defer fj.mu.Unlock()
	for _, c := range fj.clients {
		c.close()
	}
}

// clientRequests serves the client's requests until it closes its channel. Sizes are clamped before
// they are converted; resize refuses invalid ones.
func (fj *followedJob) clientRequests(c *client, requests <-chan *ssh.Request) {
	for req := range requests {
		ok := false
		switch req.Type {
		case "window-change":
			var w struct{ Columns, Rows, Width, Height uint32 }
			if ok = ssh.Unmarshal(req.Payload, &w) == nil; ok {
				fj.resize(int(min(w.Columns, maxCells+1)), int(min(w.Rows, maxCells+1)))
			}
		case "signal":
			var v struct{ Name string }
			ok = ssh.Unmarshal(req.Payload, &v) == nil && fj.signal(fj.hub.ctx, v.Name) == nil
		}
		req.Reply(ok, nil) // an error means that the channel is closed, which ends the loop
	}
	c.close()
}

func (fj *followedJob) clientInput(c *client) {
	buf := make([]byte, protocol.MaxJobFrame)
	for {
		n, err := c.ch.Read(buf)
		if n > 0 && fj.input(protocol.JobInput, buf[:n]) != nil {
			continue // read on: its client must not hang
		}
		if err == io.EOF && c.opts.EndInput && !c.isClosed() {
			fj.input(protocol.JobInputEnd, nil)
		}
		if err != nil {
			return
		}
	}
}

// notify wakes every goroutine that waits for a change. The caller holds mu.
func (c *client) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// enqueue queues output. A client that is too slow loses the oldest output and learns how much,
// unless it is to lose nothing: then enqueue waits for it to read, or to leave.
func (c *client) enqueue(ctx context.Context, kind byte, data []byte) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return
		}
		if c.queued+len(data) <= maxQueue || !c.opts.Whole {
			c.enqueueCopy(kind, data)
			c.mu.Unlock()
			return
		}
		wake := c.changed
		c.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}

// enqueueCopy queues a copy, as the caller reuses its buffer. At least one piece stays, however
// large. The caller holds mu.
func (c *client) enqueueCopy(kind byte, data []byte) {
	c.queue = append(c.queue, chunk{kind, slices.Clone(data)})
	c.queued += len(data)
	for c.queued > maxQueue && len(c.queue) > 1 {
		c.dropped += uint64(len(c.queue[0].data))
		c.queued -= len(c.queue[0].data)
		c.queue = c.queue[1:]
	}
	c.notify()
}

// finish makes write tell the client how the job ended, behind the last output.
func (c *client) finish(end End) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = &end
	c.notify()
}

// close disconnects the client. It may be called more than once, from any goroutine.
func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		if c.ch != nil {
			c.ch.Close()
		}
		c.notify()
	}
}

func (c *client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// write sends what is queued until the job has ended or the client has left.
func (c *client) write() {
	for {
		c.mu.Lock()
		queue, dropped, end, closed, wake := c.queue, c.dropped, c.end, c.closed, c.changed
		c.queue, c.queued, c.dropped = nil, 0, 0
		if len(queue) > 0 {
			c.notify()
		}
		c.mu.Unlock()
		if closed || !c.send(queue, dropped) {
			return
		}
		if len(queue) > 0 {
			continue
		}
		if end != nil {
			c.exit(*end)
			return
		}
		<-wake
	}
}

// send writes to the channel, and returns false when the client has left. It first reports how many
// bytes were dropped.
func (c *client) send(queue []chunk, dropped uint64) bool {
	if dropped > 0 {
		if _, err := io.WriteString(c.ch, omittedText(dropped)); err != nil {
			return false
		}
	}
	for _, p := range queue {
		out := io.Writer(c.ch)
		if p.kind == protocol.JobStderr {
			out = c.ch.Stderr()
		}
		if _, err := out.Write(p.data); err != nil {
			return false
		}
	}
	return true
}

// exit tells the client how the job ended; of a lost job it sees a connection that ended.
func (c *client) exit(end End) {
	c.ch.CloseWrite()
	if !end.Lost {
		c.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(end.Status)}))
	}
}
