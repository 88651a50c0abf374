//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentbox/vmm/guest/protocol"
)

// maxJobs bounds a box's jobs, with those that have ended while the host was away.
const maxJobs = 64

// jobs are the commands that run on without a client, until the host was told how they ended. The
// host chooses the ids. They belong to the machine and not to a life, so a host finds them again
// after a restart.
type jobs struct {
	// mu guards both maps, and is never held while a job starts: a start waits for as long as user
	// processes are frozen.
	mu       sync.Mutex
	list     map[string]*job
	starting map[string]chan struct{} // by id; closed when the start has succeeded or failed
}

// job is one of them. Its process and buffer never change once it is in the list. mu guards
// closeChannel, input what else changes.
type job struct {
	agent   *Agent
	spec    protocol.JobSpec
	process *process
	pty     *pty // nil without a terminal
	buffer  *jobBuffer

	in         *os.File   // nil without input; closed, or the terminal
	input      sync.Mutex // held while in is written
	inputEnded bool       // the input has ended; guarded by input

	mu           sync.Mutex
	closeChannel func() // ends the channel that serves the job now
}

// noJob reports an unknown id: the job was started in another machine.
func noJob(id string) error { return &launchError{0, fmt.Errorf("there is no job %q", id)} }

// open finds the job of a channel, or starts it if it is new and the host asks for that. A second
// channel for an id that is being started waits for that start. The error is a *launchError.
func (js *jobs) open(a *Agent, o protocol.JobOpen) (*job, error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	for js.starting[o.ID] != nil {
		started := js.starting[o.ID]
		js.mu.Unlock()
		<-started
		js.mu.Lock()
	}
	if j := js.list[o.ID]; j != nil {
		return j, nil
	}
	if o.Start == nil || o.ID == "" {
		return nil, noJob(o.ID)
	}
	// Those that have ended count, too, until the host has forgotten them.
	if len(js.list)+len(js.starting) >= maxJobs {
		return nil, &launchError{126, fmt.Errorf("the box runs as many jobs as it may (%d)", maxJobs)}
	}
	if js.list == nil {
		js.list, js.starting = map[string]*job{}, map[string]chan struct{}{}
	}
	started := make(chan struct{})
	js.starting[o.ID] = started
	js.mu.Unlock()
	j, err := a.startJob(*o.Start)
	js.mu.Lock()
	delete(js.starting, o.ID)
	close(started)
	if err == nil {
		js.list[o.ID] = j
	}
	return j, err
}

// forget drops a job that has ended; false for one that still runs.
func (js *jobs) forget(j *job) bool {
	if _, ended := j.buffer.status(); !ended {
		return false
	}
	js.mu.Lock()
	defer js.mu.Unlock()
	maps.DeleteFunc(js.list, func(_ string, other *job) bool { return other == j })
	return true
}

func (js *jobs) status() []protocol.JobStatus {
	js.mu.Lock()
	defer js.mu.Unlock()
	all := make([]protocol.JobStatus, 0, len(js.list))
	for id, j := range js.list {
		end, ended := j.buffer.status()
		all = append(all, protocol.JobStatus{
			ID: id, Argv: j.spec.Argv, Dir: j.spec.Dir, User: j.spec.User, TTY: j.spec.TTY, End: end, Ended: ended,
		})
	}
	slices.SortFunc(all, func(x, y protocol.JobStatus) int { return strings.Compare(x.ID, y.ID) })
	return all
}

// startJob starts a job's command and follows it. The error is a *launchError.
func (a *Agent) startJob(spec protocol.JobSpec) (*job, error) {
	c := command{argv: spec.Argv, dir: spec.Dir, env: maps.Clone(spec.Env)}
	if len(c.argv) == 0 {
		return nil, &launchError{127, errors.New("the command is empty")}
	}
	if c.env == nil {
		c.env = map[string]string{}
	}
	c.user, c.refused = a.userNamed(spec.User)
	j := &job{agent: a, spec: spec, buffer: newJobBuffer()}
	if spec.TTY {
		p, err := newPTY(spec.Term, windowSize{Columns: uint32(spec.Columns), Rows: uint32(spec.Rows)})
		if err != nil {
			return nil, &launchError{126, fmt.Errorf("open a terminal: %w", err)}
		}
		j.pty = p
	}
	ends, err := connect(&c, j.pty, spec.Input)
	if err != nil {
		return nil, &launchError{126, err}
	}
	j.in = ends.in
	j.process, err = a.launch(c)
	closeDescriptors(c.files)
	if err != nil {
		closeFiles(ends.all()...)
		return nil, err
	}
	j.follow(ends)
	return j, nil
}

// follow copies the job's output to its buffer, and then records the end, in the background.
func (j *job) follow(ends stdio) {
	kinds := []byte{protocol.JobOutput, protocol.JobStderr}
	j.agent.follow(j.process, ends, func(i int, r *os.File, flushed func()) {
		defer flushed()
		// A read of a pipe that some process still holds would keep the agent from ending.
		stop := context.AfterFunc(j.agent.ending, func() { r.Close() })
		defer stop()
		drain(r, func(b []byte) error {
			j.buffer.write(kinds[i], b, j.agent.ending.Done())
			return nil
		})
	}, func() {
		j.endInput()
		closeFiles(ends.out, ends.err)
		j.buffer.finish(jobExit(j.process.status))
	})
}

// jobExit is a process's end as the host gets it; a signal is 128 and its number, as in a shell.
func jobExit(status syscall.WaitStatus) protocol.JobExit {
	if status.Signaled() {
		return protocol.JobExit{Status: 128 + int(status.Signal()), Signal: signalName(status.Signal())}
	}
	return protocol.JobExit{Status: status.ExitStatus()}
}

// write passes input on. A job that does not read delays that client's input only.
func (j *job) write(b []byte) error {
	j.input.Lock()
	defer j.input.Unlock()
	if j.in == nil || j.inputEnded {
		return io.ErrClosedPipe
	}
	_, err := j.in.Write(b)
	return err
}

// endOfInput passes on the end of input: ^D to a terminal, the close of a pipe.
func (j *job) endOfInput() {
	if j.pty != nil {
		j.write([]byte{4}) // an error means that the job has ended
		return
	}
	j.input.Lock()
	defer j.input.Unlock()
	if j.in != nil && !j.inputEnded {
		j.in.Close()
	}
	j.inputEnded = true
}

// endInput closes the input of an ended job, although a writer may be waiting for it.
func (j *job) endInput() {
	if j.in != nil {
		j.in.SetWriteDeadline(time.Unix(1, 0)) // a file that is closed needs none
	}
	if j.pty == nil {
		j.endOfInput()
	}
}
