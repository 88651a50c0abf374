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

// client is somebody who is attached to a job. The goroutine of Serve writes to the channel
// (write), one reads requests and one reads input; the goroutine that follows the job puts output
// into queue. mu guards what follows it. It is never held while something is written to the
// channel: a client that does not read must not hold the job up, unless it asked for that
// (JobAttach.Whole).
type client struct {
	opts environment.JobAttach
	ch   ssh.Channel

	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, whenever something below changes
	queue   []piece
	// bytes in queue
	queued  int
	missing uint64 // bytes that the client was too slow for
	end     *End
	gone    bool
}

// piece is output of one kind, protocol.JobOutput or JobErrors.
type piece struct {
	kind byte
	data []byte
}

// maxQueue is how far a client may be behind its job. In bytes.
const maxQueue = 1 << 20

// Serve attaches a client: it is the handler of environment.AttachChannel. It returns when the
// client or the job has gone, or ctx is done; then its goroutines have ended. A job that is not
// known is refused with a reason.
func (h *Hub) Serve(ctx context.Context, nch ssh.NewChannel) {
	// What a client says is as little believed as what a guest says.
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

// expect keeps what the job writes for a client that has not come yet. It is for a command that is
// started and attached to in two steps: nothing may be lost between them.
func (j *live) expect() {
	j.awaited = &client{opts: environment.JobAttach{Whole: true}, changed: make(chan struct{})}
	j.clients = append(j.clients, j.awaited)
}

// join counts a client in; it sees everything from the screenful on. The one that is expected sees
// everything.
func (j *live) join(opts environment.JobAttach, ch ssh.Channel) *client {
	j.mu.Lock()
	// The client that was expected has been queued for since before the job began; any other sees
	// what is on the screen, and what comes.
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

// come makes the client that was expected the one that came.
func (c *client) come(opts environment.JobAttach, ch ssh.Channel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts, c.ch = opts, ch
	if c.gone { // the hub has let go of the job meanwhile
		ch.Close()
	}
}

// leave takes a client out, and has the guest told whether it still has to wait for anybody.
func (j *live) leave(c *client) {
	c.leave()
	j.mu.Lock()
	j.clients = slices.DeleteFunc(j.clients, func(other *client) bool { return other == c })
	j.mu.Unlock()
	j.tellPatience()
}

// dropClients sends all away: the hub lets go of the job.
func (j *live) dropClients() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.clients {
		c.leave()
	}
}

// clientRequests does what the client asks until it closes its channel. Sizes are clamped before
// they are converted; resize refuses those that are none.
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

// tell wakes everybody who waits. The caller has the lock.
func (c *client) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// put queues output. A client that is too slow loses the oldest of it, and is told how much in its
// place, unless it is to lose nothing: then put waits.
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

// append queues a copy, as the caller uses its buffer again. The caller has the lock. At least one
// piece stays, however large.
func (c *client) append(kind byte, data []byte) {
	c.queue = append(c.queue, piece{kind, slices.Clone(data)})
	c.queued += len(data)
	for c.queued > maxQueue && len(c.queue) > 1 {
		c.missing += uint64(len(c.queue[0].data))
		c.queued -= len(c.queue[0].data)
		c.queue = c.queue[1:]
	}
	c.tell()
}

// finish has the client told how the job ended, behind the last of its output.
func (c *client) finish(end End) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = &end
	c.tell()
}

// leave ends the client; it may be called more than once, and from any goroutine.
func (c *client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		c.gone = true
		if c.ch != nil {
			c.ch.Close()
		}
		c.tell()
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
			c.tell()
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

// send writes to the channel; false when the client has gone. The output may have lost its first
// pieces: that is said first.
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

// exit says how the job ended. A job that was lost has no status: the client sees a connection that
// ended.
func (c *client) exit(end End) {
	c.ch.CloseWrite()
	if !end.Lost {
		c.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(end.Status)}))
	}
}
