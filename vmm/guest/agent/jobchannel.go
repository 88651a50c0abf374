//go:build linux

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest/protocol"
)

// job serves the channel of one job. A job waits for the first start like any command, but its host
// must not go without an answer: after EarlyWait it is told to ask again.
func (c *connection) job(nc ssh.NewChannel) {
	var o protocol.JobOpen
	if err := json.Unmarshal(nc.ExtraData(), &o); err != nil {
		refuseJob(nc, &launchError{126, err})
		return
	}
	early, cancel := context.WithTimeout(c.agent.ending, c.agent.Machine.EarlyWait)
	defer cancel()
	if o.Start != nil && !c.agent.first.wait(early) {
		refuseJob(nc, errEarly)
		return
	}
	j, err := c.agent.jobs.open(c.agent, o)
	if err != nil {
		refuseJob(nc, err)
		return
	}
	ch, requests, err := nc.Accept()
	if err != nil {
		return // the connection is gone; the job goes on for the next
	}
	j.serve(ch, requests, o.From)
}

// errEarly is not a failure; it becomes JobRefusal.Early.
var errEarly = errors.New("the box is still making what is its own")

func refuseJob(nc ssh.NewChannel, err error) {
	refusal := protocol.JobRefusal{Status: launchStatus(err), Error: err.Error(), Early: errors.Is(err, errEarly)}
	reason, _ := json.Marshal(refusal) // never fails for these types
	nc.Reject(ssh.ConnectionFailed, string(reason))
}

// serve sends the job's output from a position on and handles the host's requests, until the
// channel is closed or another replaces it: a job has one channel, the newest. This goroutine sends
// output; requests and input have one each. All end with the channel, and the job does not notice.
func (j *job) serve(ch ssh.Channel, requests <-chan *ssh.Request, from uint64) {
	stop := make(chan struct{})
	leave := sync.OnceFunc(func() {
		close(stop)
		ch.Close()
	})
	j.mu.Lock()
	// A job has one channel, and the newest counts.
	if j.closeChannel != nil {
		j.closeChannel()
	}
	j.closeChannel = leave
	j.mu.Unlock()
	j.buffer.attach(from)
	defer j.buffer.detach()
	j.agent.goRecover("job requests", func() { j.requests(requests, leave) })
	j.agent.goRecover("job input", func() { j.copyIn(ch) })
	j.send(ch, from, stop)
	<-stop
}

// requests answers the requests of one channel in order until it is closed, and then calls leave.
func (j *job) requests(requests <-chan *ssh.Request, leave func()) {
	defer leave()
	for req := range requests {
		ok := j.request(req)
		if req.WantReply {
			req.Reply(ok, nil) // an error means that the channel is closed, which ends the loop
		}
	}
}

// request handles one request and returns false to refuse it.
func (j *job) request(req *ssh.Request) bool {
	switch req.Type {
	case "window-change":
		return j.pty.change(req.Payload)
	case "signal":
		return j.agent.signal(j.process, req.Payload)
	case protocol.JobFlowControl:
		var v struct{ Blocking bool }
		if ssh.Unmarshal(req.Payload, &v) != nil {
			return false
		}
		j.buffer.setBlocking(v.Blocking)
		return true
	case protocol.JobForget:
		return j.agent.jobs.forget(j)
	}
	return false
}

// copyIn passes on the input that the host sends, until the channel ends or sends a malformed
// frame, which ends its input and not the job.
func (j *job) copyIn(ch ssh.Channel) {
	buf := make([]byte, protocol.MaxJobFrame)
	for {
		f, err := protocol.ReadJobFrame(ch, buf)
		switch {
		case err != nil:
			return
		case f.Kind == protocol.JobInput:
			j.write(f.Data)
		case f.Kind == protocol.JobInputEnd:
			j.endOfInput()
		}
	}
}

// send writes frames until the job's end was sent, the channel closes or stop does. from is the
// position of the first byte that the host does not have. A JobAt announces each gap. A frame holds
// what the buffer has at that moment, so a slow host gets larger ones.
func (j *job) send(ch ssh.Channel, from uint64, stop <-chan struct{}) {
	end, _ := j.buffer.status()
	from = min(from, end)
	out := protocol.AppendJobOffset(nil, from)
	buf := make([]byte, protocol.MaxJobFrame)
	for {
		got, exit, ok := j.buffer.take(from, buf, stop)
		switch {
		case !ok:
			return
		case exit != nil:
			last, _ := json.Marshal(exit) // of a number and a text
			// An error means that the channel is closed: the next one gets the end.
			ch.Write(protocol.AppendJobFrame(out, protocol.JobEnd, last))
			return
		case got.at != from:
			out = protocol.AppendJobOffset(out, got.at)
		}
		out = protocol.AppendJobFrame(out, got.kind, got.data)
		if _, err := ch.Write(out); err != nil {
			return
		}
		from, out = got.at+uint64(len(got.data)), out[:0]
		if wait := j.buffer.pause(len(got.data)); wait > 0 {
			time.Sleep(wait)
		}
	}
}
