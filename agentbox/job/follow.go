package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/environment"
	"agentbox/vmm/guest/protocol"
)

// followedJob is a job that this hub follows, or followed to its end. One goroutine follows it
// (follow) and alone uses recorder. Lock order: followedJob.mu, then client.mu; inputMu is taken
// with neither held.
type followedJob struct {
	hub      *Hub
	rec      Record
	dir      string
	recorder *recorder // of the goroutine that follows

	// mu guards what follows, up to end.
	mu       sync.Mutex
	screen   screen
	clients  []*client
	expected *client     // one of clients, which has not attached yet; nil if none is expected
	channel  ssh.Channel // nil while the guest is away
	end      *End
	ended    chan struct{} // closed when end is on the disk

	served  chan struct{}          // closed when the client that was expected has left; nil if none was
	size    atomic.Pointer[[2]int] // columns and rows of the terminal, as a client last asked
	inputMu sync.Mutex             // held while input is written to channel
}

// newFollowedJob makes the followedJob of a record. The caller starts the goroutine that follows
// it. columns and rows are the size of its first terminal.
func (h *Hub) newFollowedJob(rec Record, columns, rows int) *followedJob {
	dir := Dir(h.Dir, rec.ID)
	return &followedJob{hub: h, rec: rec, dir: dir, recorder: newRecorder(dir, rec, columns, rows), ended: make(chan struct{})}
}

// open opens the job's channel in the guest, and starts the job if spec is not nil. JobOpen.From
// tells the guest from which byte on to send. A refusal that is Early says that the guest is not
// ready yet; it is asked again until ctx is done.
func (fj *followedJob) open(ctx context.Context, spec *protocol.JobSpec) (ssh.Channel, <-chan *ssh.Request, error) {
	client, err := fj.hub.Backend(ctx)
	if err != nil {
		return nil, nil, err
	}
	extra, err := json.Marshal(protocol.JobOpen{ID: fj.rec.ID.String(), Start: spec, From: fj.recorder.Pos})
	if err != nil {
		return nil, nil, err
	}
	for {
		ch, requests, err := environment.OpenChannel(ctx, client, protocol.JobChannel, extra)
		if r := refusalOf(err); r == nil || !r.Early || ctx.Err() != nil {
			return ch, requests, err
		}
		background.Sleep(ctx, reopenDelay) // our guest has waited before it answered; another may not have
	}
}

// reopenDelay is how long to wait before a channel that ended is opened again.
const reopenDelay = 100 * time.Millisecond

// follow records the job to its end, over as many channels as that takes. ch is the first one, or
// nil if there is none yet. It returns when the job or the hub has ended. A job that goes on is
// left so that the next hub can adopt it.
func (fj *followedJob) follow(ch ssh.Channel, requests <-chan *ssh.Request) {
	defer fj.hub.OnBegin()()
	defer time.AfterFunc(expectTimeout, fj.stopExpecting).Stop()
	ctx := fj.hub.ctx
	for ctx.Err() == nil {
		var err error
		if ch == nil {
			ch, requests, err = fj.open(ctx, nil)
		}
		switch {
		case err == nil:
			end, err := fj.read(ctx, ch, requests)
			if end != nil && fj.finish(*end, ch) {
				return
			}
			if ctx.Err() == nil {
				fj.hub.Log.Warn("lost the channel of a job", "job", fj.rec.ID, "error", err)
			}
		case refusalOf(err) != nil && ctx.Err() == nil: // the guest does not know it
			if fj.finish(End{Lost: true}, nil) {
				return
			}
		}
		ch = nil
		background.Sleep(ctx, reopenDelay)
	}
	// The hub ends, and the job goes on in a saved machine, or is lost with a machine that ends.
	if err := fj.recorder.suspend(); err != nil {
		fj.hub.Log.Error("cannot record where the transcript of a job stopped", "job", fj.rec.ID, "error", err)
	}
	fj.closeClients()
}

// read takes what the guest sends until the job (end) or the channel (nil) ends.
func (fj *followedJob) read(ctx context.Context, ch ssh.Channel, requests <-chan *ssh.Request) (*End, error) {
	defer context.AfterFunc(ctx, func() { ch.Close() })()
	go ssh.DiscardRequests(requests) // ends with the channel
	fj.setChannel(ch)
	defer fj.setChannel(nil)
	buf := make([]byte, protocol.MaxJobFrame)
	for {
		f, err := protocol.ReadJobFrame(ch, buf)
		if err != nil {
			ch.Close()
			return nil, err
		}
		end, err := fj.handle(f)
		if err != nil {
			ch.Close()
			return nil, err
		}
		if end != nil {
			return end, nil
		}
	}
}

// handle records a frame and passes it on. A frame of an unknown kind is an error: the position of
// what follows would be a guess.
func (fj *followedJob) handle(f protocol.JobFrame) (*End, error) {
	switch f.Kind {
	case protocol.JobOffset:
		fj.seek(f.Offset())
	case protocol.JobOutput, protocol.JobStderr:
		fj.hub.OnOutput()
		if size := fj.size.Load(); size != nil && fj.rec.TTY {
			fj.recorder.resize(size[0], size[1])
		}
		fj.recorder.output(f.Kind, f.Data)
		fj.broadcast(f.Kind, f.Data)
	case protocol.JobEnd:
		e, err := f.Exit()
		if err != nil {
			return nil, err
		}
		return &End{Status: e.Status, Signal: printable(e.Signal)}, nil
	default:
		return nil, fmt.Errorf("the guest sent a frame of kind %q", f.Kind)
	}
	return nil, nil
}

// maxSkip bounds how much output a guest can claim to have left out at once.
const maxSkip = 1 << 60

// seek goes to where the guest's output continues: forward if some was left out, back if the
// machine was rolled back. After a rollback the job repeats output that was recorded already, and
// it is recorded again: the transcript tells what happened.
func (fj *followedJob) seek(at uint64) {
	at = min(at, maxSkip)
	if at <= fj.recorder.Pos {
		fj.recorder.Pos = at
		return
	}
	n := at - fj.recorder.Pos
	fj.recorder.skip(at)
	fj.broadcast(protocol.JobOutput, []byte(omittedText(n)))
}

// broadcast gives output to every client, and waits for those that are to lose nothing. The screen
// is updated under the same lock as the list, so that a client that joins gets each byte once, in
// its replay or after it.
func (fj *followedJob) broadcast(kind byte, data []byte) {
	fj.mu.Lock()
	fj.screen.write(data)
	clients := slices.Clone(fj.clients)
	fj.mu.Unlock()
	for _, c := range clients {
		c.enqueue(fj.hub.ctx, kind, data)
	}
}

// finish records how the job ended, tells the clients, and lets the guest forget the job. The order
// matters: once the guest has forgotten it, only exit.json says how the job ended. So finish tries
// until the file is on the disk, for which clients need not wait: the guest has the end until then.
// It returns false if the hub ends first: the next hub asks the guest again.
func (fj *followedJob) finish(end End, ch ssh.Channel) bool {
	fj.recorder.close()
	end.Time, end.Omitted = time.Now().UTC(), fj.recorder.Omitted
	path := filepath.Join(fj.dir, EndFile)
	for failed := false; ; failed = true {
		err := writeJSON(path, end)
		if err == nil {
			fj.tell(end)
			err = fj.hub.sync(path, fj.dir)
		}
		if err == nil {
			break
		}
		if !failed {
			fj.hub.Log.Error("cannot record how a job ended", "job", fj.rec.ID, "error", err)
		}
		if !background.Sleep(fj.hub.ctx, rewriteDelay) {
			return false
		}
	}
	close(fj.ended)
	if ch != nil {
		ch.SendRequest(protocol.JobForget, true, nil) // if this fails, the job goes with its machine
		ch.Close()
	}
	return true
}

// tell tells the clients how the job ended.
func (fj *followedJob) tell(end End) {
	fj.mu.Lock()
	fj.end = &end
	clients := slices.Clone(fj.clients)
	fj.mu.Unlock()
	for _, c := range clients {
		c.finish(end)
	}
}

// rewriteDelay is the pause between two tries to write exit.json.
const rewriteDelay = time.Second

// setChannel sets the channel to the guest, nil for none, and tells the guest over a new one
// whether to wait for clients.
func (fj *followedJob) setChannel(ch ssh.Channel) {
	fj.mu.Lock()
	fj.channel = ch
	fj.mu.Unlock()
	if ch != nil {
		fj.sendFlowControl()
	}
}

// currentChannel is the channel to the guest, nil while the guest is away.
func (fj *followedJob) currentChannel() ssh.Channel {
	fj.mu.Lock()
	defer fj.mu.Unlock()
	return fj.channel
}

// signal asks the guest, and waits for its answer. name is without SIG, as in RFC 4254.
func (fj *followedJob) signal(ctx context.Context, name string) error {
	ch := fj.currentChannel()
	if ch == nil {
		return agentbox.Errorf(agentbox.Conflict, "job %s has ended, or its box does not answer", fj.rec.ID).WithHint("agentbox jobs says which")
	}
	ok, err := environment.Request(ctx, ch, "signal", ssh.Marshal(struct{ Name string }{name}))
	switch {
	case errors.Is(err, io.EOF):
		return agentbox.Errorf(agentbox.Conflict, "job %s has ended", fj.rec.ID)
	case err == nil && !ok:
		return agentbox.Errorf(agentbox.Invalid, "there is no signal %q", name).WithHint("INT, TERM, KILL, HUP, USR1, ... without SIG")
	}
	return err
}

// input sends a client's input to the guest. While the guest is away it is dropped, as by a
// terminal that hung up. data has at most protocol.MaxJobFrame bytes. Frames of two clients do not
// mix.
func (fj *followedJob) input(kind byte, data []byte) error {
	ch := fj.currentChannel()
	if ch == nil {
		return errors.New("the job takes no input now")
	}
	fj.inputMu.Lock()
	defer fj.inputMu.Unlock()
	_, err := ch.Write(protocol.AppendJobFrame(nil, kind, data))
	return err
}

// resize gives the job's terminal the size that a client asked for last. It ignores sizes that no
// terminal has. The transcript gets the size with the next output, by the goroutine that owns the
// recorder.
func (fj *followedJob) resize(columns, rows int) {
	if columns <= 0 || rows <= 0 || columns > maxCells || rows > maxCells {
		return
	}
	fj.size.Store(&[2]int{columns, rows})
	if ch := fj.currentChannel(); ch != nil {
		ch.SendRequest("window-change", false, ssh.Marshal(struct{ W, H, X, Y uint32 }{uint32(columns), uint32(rows), 0, 0}))
	}
}

// maxCells is the widest and highest terminal there is.
const maxCells = 4096

// sendFlowControl tells the guest whether to wait until the hub has read: it has to while a client
// is to lose nothing. Otherwise the guest leaves output out when the hub is slow, as a job must not
// stop for lack of a reader.
func (fj *followedJob) sendFlowControl() {
	fj.mu.Lock()
	ch := fj.channel
	blocking := slices.ContainsFunc(fj.clients, func(c *client) bool { return c.opts.Whole }) // Whole changes under j.mu only
	fj.mu.Unlock()
	if ch != nil {
		ch.SendRequest(protocol.JobFlowControl, false, ssh.Marshal(struct{ Blocking bool }{blocking}))
	}
}
