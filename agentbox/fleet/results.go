package fleet

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/resources"
)

// keepChunk appends what a command wrote, if it follows what is there, and returns how much there is
// then. What is lost here comes again with the result.
func keepChunk(path string, offset int64, chunk []byte) (size int64) {
	if info, err := os.Stat(path); err == nil {
		size = info.Size()
	}
	if offset != size || len(chunk) == 0 || len(chunk) > maxChunk || size > MaxTranscript {
		return size
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return size
	}
	n, _ := f.Write(chunk)
	_ = f.Close()
	return size + int64(n)
}

// finish receives a result. It is called with o.mu held, which it gives up while bytes come; nobody
// else gets the lease meanwhile.
func (o *Owner) finish(ctx context.Context, at *offered, q question, s io.Reader) (answer, error) {
	if at.finishing || q.Result == nil || !q.Result.State.Done() || q.Transcript < 0 || q.Transcript > MaxTranscript {
		return answer{Stop: stopRefused}, nil
	}
	if q.Result.State == agentbox.TaskCancelled && !at.cancelled { // by who may not: another machine goes on
		o.end(at, false)
		return answer{Stop: stopStale}, nil
	}
	at.finishing = true
	o.mu.Unlock()
	in := &cutOff{Reader: s}
	result, err := o.receive(ctx, at, q, in)
	if err == nil {
		err = durable.WriteJSON(filepath.Join(at.dir, acceptedFile), result, 0o600)
	}
	o.mu.Lock()
	at.finishing, at.heard.Last = false, time.Now()
	if in.err != nil {
		at.cut++
	}
	switch {
	case err != nil && agentbox.CodeOf(err) == agentbox.Corrupt && (in.err == nil || at.cut > maxCut):
		o.Log.Warn("a worker's result is refused", "task", at.task.ID, "worker", at.lease.Name, "error", err)
		o.end(at, true)
		return answer{Stop: stopRefused}, nil
	case err != nil:
		return answer{}, err // it may come again
	}
	at.finished = true
	at.done <- result
	return answer{Stop: stopStale}, nil
}

// maxCut is how many deliveries of a result may be cut off: that is the network's fault, or that of a full
// disk at the worker, which sends it again.
const maxCut = 20

// cutOff remembers why what came was not all.
type cutOff struct {
	io.Reader
	err error
}

func (c *cutOff) Read(b []byte) (n int, err error) {
	if n, err = c.Reader.Read(b); err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

func (o *Owner) receive(ctx context.Context, at *offered, q question, s io.Reader) (agentbox.Result, error) {
	path := filepath.Join(at.dir, transcriptFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return agentbox.Result{}, err
	}
	defer os.Remove(path + ".new")
	_, err = io.CopyN(f, s, q.Transcript)
	if err = errors.Join(err, f.Close()); err != nil {
		return agentbox.Result{}, err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return agentbox.Result{}, err
	}
	return o.Accept(ctx, at.task, Sanitized(*q.Result, at.lease.Name, Most(at.attempt, at.need)), s)
}

// Most is what an attempt can have used by now: twice what its box has, as the machine has work with it
// beside that. More bytes and tokens than mostCounted, nothing uses.
func Most(a agentbox.Attempt, need resources.Share) agentbox.Consumption {
	wall := max(time.Since(a.Started), 0)
	memory := 2 * max(need.Memory, 1<<30)
	return agentbox.Consumption{CPU: 2 * wall * time.Duration(max(need.CPUs, 1)), Memory: wall.Seconds() * float64(memory) / (1 << 30), MemoryPeak: memory}
}

const mostCounted = 1e15

// believed is what may be believed of a worker's figures, which cost somebody: none is negative, or more
// than most.
func believed(said *agentbox.Consumption, most agentbox.Consumption) *agentbox.Consumption {
	if said == nil {
		return nil
	}
	used := agentbox.Consumption{
		CPU: min(max(said.CPU, 0), most.CPU), Memory: min(max(said.Memory, 0), most.Memory), MemoryPeak: min(max(said.MemoryPeak, 0), most.MemoryPeak),
		In: counted(said.In), Out: counted(said.Out),
	}
	for model, t := range said.Models {
		used.AddTokens(agentbox.Printable(model[:min(len(model), maxModel)]), agentbox.Tokens{
			Answers: counted(t.Answers), Unreported: counted(t.Unreported), Input: counted(t.Input), CacheRead: counted(t.CacheRead), CacheWrite: counted(t.CacheWrite), Output: counted(t.Output),
			Cut: counted(t.Cut), Refused: counted(t.Refused),
		})
	}
	return &used
}

func counted(n int64) int64 { return min(max(n, 0), mostCounted) }

// Sanitized is what may be believed of a worker's result: how it ended, and figures about it, which are at
// most these.
func Sanitized(r agentbox.Result, worker string, most agentbox.Consumption) agentbox.Result {
	text := func(s string) string { return agentbox.Printable(s[:min(len(s), maxText)]) }
	out := agentbox.Result{
		State: r.State, Exit: r.Exit, Reason: text(r.Reason), Limit: r.Limit, Omitted: r.Omitted, Commits: max(r.Commits, 0), Files: max(r.Files, 0),
		Used: believed(r.Used, most), Commit: r.Commit, Base: r.Base, Ref: r.Ref,
	}
	if r.Cause == agentbox.CausePolicy {
		out.Cause = r.Cause
	}
	for _, d := range r.Denied[:min(len(r.Denied), 100)] {
		d.What, d.Host, d.Reason = text(d.What), text(d.Host), text(d.Reason)
		out.Denied = append(out.Denied, d)
	}
	for _, n := range r.Notes[:min(len(r.Notes), 20)] {
		out.Notes = append(out.Notes, text(n))
	}
	if r.Box != "" {
		out.Notes = append(out.Notes, "what could not be kept is in box "+text(r.Box)+" on "+worker)
	}
	if len(r.OtherWork) > 0 {
		out.Notes = append(out.Notes, agentbox.Plural(len(r.OtherWork), "other branch")+" stayed on "+worker)
	}
	return out
}
