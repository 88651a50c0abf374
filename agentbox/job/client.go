package job

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/vmm/guest/protocol"
)

// client is attached to a job. The goroutine of Serve writes to the channel (write), a second one
// reads requests and a third input; the goroutine that follows the job appends to queue. mu guards
// the fields below it. Nothing is written to the channel while mu is held: a client that does not
// read must not hold up the job, unless it asked for that (JobAttach.Whole).
type client struct {
	opts environment.JobAttach
	ch   ssh.Channel

	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, whenever something below changes
	queue   []piece
	queued  int    // bytes in queue
	missing uint64 // bytes dropped because the client was too slow
	end     *End
	gone    bool
}

// piece is output of one kind: protocol.JobOutput or protocol.JobErrors.
type piece struct {
	kind byte
	data []byte
}

// maxQueue is how far a client may fall behind its job, in bytes.
const maxQueue = 1 << 20

// Serve attaches a client: it is the handler of environment.AttachChannel. It returns when the
// client or the job has gone, or ctx is done; by then its goroutines have ended. An unknown job is
// refused with a reason.
func (h *Hub) Serve(ctx context.Context, nch ssh.NewChannel) {
	// A client is trusted no more than a guest.
	var opts environment.JobAttach
	if err := json.Unmarshal(nch.ExtraData(), &opts); err != nil {
		nch.Reject(ssh.ConnectionFailed, "agentbox: malformed request")
		return
	}
	id, err := agentbox.ParseJobID(opts.Job)
	if err == nil {
		err = h.await(ctx)
	}
	j := h.job(id)
	if err != nil || j == nil {
		nch.Reject(ssh.ConnectionFailed, "there is no job "+printable(opts.Job))
		return
	}
	ch, requests, err := nch.Accept()
	if err != nil {
		return
	}
	c := j.join(opts, ch)
	defer context.AfterFunc(ctx, c.leave)()
	var work sync.WaitGroup
	work.Go(func() { j.clientRequests(c, requests) })
	work.Go(func() { j.clientInput(c) })
	c.write()
	ch.Close()
	j.leave(c)
	work.Wait()
}

// expect keeps the output for a client that has not come yet. It is for a command that is started
// and attached to in two steps: nothing may be lost between them.
func (j *live) expect() {
	j.awaited = &client{opts: environment.JobAttach{Whole: true}, changed: make(chan struct{})}
	j.clients = append(j.clients, j.awaited)
}

// join adds a client. The expected client sees everything; any other sees what is on the screen,
// and what follows.
func (j *live) join(opts environment.JobAttach, ch ssh.Channel) *client {
	j.mu.Lock()
	c := j.awaited
	if c != nil && opts.Whole {
		j.awaited = nil
		c.come(opts, ch)
	} else {
		c = &client{opts: opts, ch: ch, changed: make(chan struct{}), end: j.end}
		if opts.Replay {
			c.append(protocol.JobOutput, j.screen.replay(opts.Rows))
		}
		j.clients = append(j.clients, c)
	}
	j.mu.Unlock()
	j.resize(opts.Columns, opts.Rows)
	j.tellPatience()
	return c
}

// come makes the expected client the one that came.
func (c *client) come(opts environment.JobAttach, ch ssh.Channel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts, c.ch = opts, ch
	if c.gone { // the hub has stopped following the job meanwhile
		ch.Close()
	}
}

// leave removes a client, and tells the guest whether the job still has to wait for anybody.
func (j *live) leave(c *client) {
	c.leave()
	j.mu.Lock()
	j.clients = slices.DeleteFunc(j.clients, func(other *client) bool { return other == c })
	j.mu.Unlock()
	j.tellPatience()
}

// dropClients sends all clients away: the hub stops following the job.
func (j *live) dropClients() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.clients {
		c.leave()
	}
}

// clientRequests serves the client's requests until it closes its channel. Sizes are clamped before
// they are converted; resize refuses invalid ones.
func (j *live) clientRequests(c *client, requests <-chan *ssh.Request) {
	for req := range requests {
		ok := false
		switch req.Type {
		case "window-change":
			var w struct{ Columns, Rows, Width, Height uint32 }
			if ok = ssh.Unmarshal(req.Payload, &w) == nil; ok {
				j.resize(int(min(w.Columns, maxCells+1)), int(min(w.Rows, maxCells+1)))
			}
		case "signal":
			var v struct{ Name string }
			ok = ssh.Unmarshal(req.Payload, &v) == nil && j.signal(j.hub.ctx, v.Name) == nil
		}
		req.Reply(ok, nil) // an error means that the channel is closed, which ends the loop
	}
	c.leave()
}

// clientInput passes on what the client types.
func (j *live) clientInput(c *client) {
	buf := make([]byte, protocol.MaxJobFrame)
	for {
		n, err := c.ch.Read(buf)
		if n > 0 && j.input(protocol.JobInput, buf[:n]) != nil {
			continue // read on: its client must not hang
		}
		if err == io.EOF && c.opts.EndInput && !c.left() {
			j.input(protocol.JobInputEnd, nil)
		}
		if err != nil {
			return
		}
	}
}

// wakeAll wakes everybody who waits. The caller holds mu.
func (c *client) wakeAll() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// put queues output. A client that is too slow loses the oldest output and learns how much, unless
// it is to lose nothing: then put waits.
func (c *client) put(ctx context.Context, kind byte, data []byte) {
	for {
		c.mu.Lock()
		if c.gone {
			c.mu.Unlock()
			return
		}
		if c.queued+len(data) <= maxQueue || !c.opts.Whole {
			c.append(kind, data)
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

// append queues a copy, as the caller reuses its buffer. At least one piece stays, however large.
// The caller holds mu.
func (c *client) append(kind byte, data []byte) {
	c.queue = append(c.queue, piece{kind, slices.Clone(data)})
	c.queued += len(data)
	for c.queued > maxQueue && len(c.queue) > 1 {
		c.missing += uint64(len(c.queue[0].data))
		c.queued -= len(c.queue[0].data)
		c.queue = c.queue[1:]
	}
	c.wakeAll()
}

// finish makes write tell the client how the job ended, behind the last output.
func (c *client) finish(end End) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = &end
	c.wakeAll()
}

// leave ends the client. It may be called more than once, from any goroutine.
func (c *client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		c.gone = true
		if c.ch != nil {
			c.ch.Close()
		}
		c.wakeAll()
	}
}

// left tells whether the client has gone.
func (c *client) left() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// write sends what is queued until the job has ended or the client has gone.
func (c *client) write() {
	for {
		c.mu.Lock()
		queue, missing, end, gone, wake := c.queue, c.missing, c.end, c.gone, c.changed
		c.queue, c.queued, c.missing = nil, 0, 0
		if len(queue) > 0 {
			c.wakeAll()
		}
		c.mu.Unlock()
		if gone || !c.send(queue, missing) {
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

// send writes to the channel; false when the client has gone. If the oldest output was dropped, it
// says so first.
func (c *client) send(queue []piece, missing uint64) bool {
	if missing > 0 {
		if _, err := io.WriteString(c.ch, leftOutText(missing)); err != nil {
			return false
		}
	}
	for _, p := range queue {
		out := io.Writer(c.ch)
		if p.kind == protocol.JobErrors {
			out = c.ch.Stderr()
		}
		if _, err := out.Write(p.data); err != nil {
			return false
		}
	}
	return true
}

// exit tells the client how the job ended. A lost job has no status: the client sees a connection
// that ended.
func (c *client) exit(end End) {
	c.ch.CloseWrite()
	if !end.Lost {
		c.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(end.Status)}))
	}
}
