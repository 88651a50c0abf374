//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// outputGrace is how long after a command's end its output is waited for when something it left
// behind still has it open. Output that is there is always sent; what comes later is read and
// dropped, so that daemons go on.
const outputGrace = 200 * time.Millisecond

// run starts the session's command. accepted answers the request that asked for it, before anything
// else is sent. The session has at most one. Its goroutines outlive the session where the life ends
// before the command.
func (s *session) run(c command, accepted func()) {
	ends, err := s.connect(&c)
	if err != nil {
		accepted()
		s.refuse(err)
		return
	}
	if s.conn.agent.first.making() { // for longer than a client waits for an answer, perhaps
		accepted()
		accepted = func() {}
	}
	p, err := s.conn.agent.launch(c)
	closeDescriptors(c.files)
	accepted()
	if err != nil {
		closeFiles(ends.all()...)
		s.refuse(err)
		return
	}
	s.process = p
	s.follow(p, ends)
}

// stdio are the agent's ends of a command's input and outputs. With a terminal, in and out are the
// same file.
type stdio struct{ in, out, err *os.File }

// all are those to close, each once; some may be nil.
func (e stdio) all() []*os.File {
	if e.in == e.out {
		return []*os.File{e.in}
	}
	return []*os.File{e.in, e.out, e.err}
}

// connect gives c its files and returns the other ends. c.files are the command's, to be closed
// when it was started.
func (s *session) connect(c *command) (ends stdio, err error) {
	if s.pty != nil {
		c.files, c.tty = []int{s.pty.slave, s.pty.slave, s.pty.slave}, true
		if s.pty.term != "" {
			c.env["TERM"] = s.pty.term
		}
		s.pty.own(c.user)
		return stdio{in: s.pty.master, out: s.pty.master}, nil
	}
	for i, end := range []**os.File{&ends.in, &ends.out, &ends.err} {
		theirs, ours, err := newPipe(i == 0)
		if err != nil {
			closeDescriptors(c.files)
			closeFiles(ends.all()...)
			return ends, err
		}
		*end, c.files = ours, append(c.files, theirs)
	}
	return ends, nil
}

// newPipe makes a pipe with one end for the command, which blocks, and one for the agent, which
// does not. A command expects files that block; the agent's must not, so that a read can be ended
// by a deadline and costs no thread.
func newPipe(commandReads bool) (theirs int, ours *os.File, err error) {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return -1, nil, os.NewSyscallError("pipe", err)
	}
	theirs, mine := p[1], p[0]
	if commandReads {
		theirs, mine = mine, theirs
	}
	if err := syscall.SetNonblock(mine, true); err != nil {
		closeDescriptors(p[:])
		return -1, nil, os.NewSyscallError("fcntl", err)
	}
	return theirs, os.NewFile(uintptr(mine), "pipe"), nil
}

// refuse tells the client why the command did not start, as a shell would.
func (s *session) refuse(err error) {
	status := 126
	if e := (*notRun)(nil); errors.As(err, &e) {
		status = e.status
	}
	out := io.Writer(s.ch.Stderr())
	line := fmt.Sprintf("agentbox: %v\n", err)
	if s.pty != nil {
		out, line = s.ch, fmt.Sprintf("agentbox: %v\r\n", err)
		s.pty.close()
	}
	io.WriteString(out, line) // a client that is gone needs no reason
	s.exit(syscall.WaitStatus(status << 8))
}

// follow moves bytes both ways, and reports the command's end. Three or four goroutines of the
// agent's: both outputs, the input, the end. The exit status is sent when all output has been.
func (s *session) follow(p *process, ends stdio) {
	a := s.conn.agent
	var flushed sync.WaitGroup
	outputs := []*os.File{ends.out}
	flushed.Add(1)
	a.goDo("stdout", func() { s.copyOut(s.ch, ends.out, flushed.Done) })
	if ends.err != nil {
		outputs = append(outputs, ends.err)
		flushed.Add(1)
		a.goDo("stderr", func() { s.copyOut(s.ch.Stderr(), ends.err, flushed.Done) })
	}
	a.goDo("stdin", func() { s.copyIn(p, ends) })
	a.goDo("exit", func() {
		<-p.done
		for _, f := range outputs {
			f.SetReadDeadline(time.Now().Add(outputGrace)) // a closed file needs none
		}
		flushed.Wait()
		s.exit(p.status)
	})
}

// copyOut sends what the command writes until it has ended, its client has gone or it closed its
// end, and then reads on for nobody. flushed is called when nothing more will be sent. After the
// command's end it has outputGrace to be read empty; what is pending extends it.
func (s *session) copyOut(w io.Writer, r *os.File, flushed func()) {
	defer r.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				break
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if pending(r) == 0 {
				break
			}
			r.SetReadDeadline(time.Now().Add(outputGrace))
		} else if err != nil {
			break
		}
	}
	flushed()
	stop := context.AfterFunc(s.conn.agent.ending, func() { r.Close() })
	defer stop()
	r.SetReadDeadline(time.Time{})
	for {
		if _, err := r.Read(buf); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		r.SetReadDeadline(time.Time{}) // the command may end, and set one, at any moment
	}
}

// pending is how many bytes wait in a pipe or terminal.
func pending(f *os.File) int {
	n := 0
	raw, err := f.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return n
}

// copyIn passes on what the client sends. When the life ended, the input stays open: the command
// goes on, and its end of input would be a message nobody sent.
func (s *session) copyIn(p *process, ends stdio) {
	_, err := io.Copy(ends.in, s.ch)
	if s.conn.life.ended.Load() {
		<-p.done
	}
	// A terminal has one file for both directions, which must not be closed for the end of one.
	switch {
	case ends.in != ends.out:
		ends.in.Close()
	case err == nil:
		ends.in.Write([]byte{4}) // ^D, the end of input of a terminal
	}
}

// exit reports how the command ended and closes the channel. Errors mean that nobody listens.
func (s *session) exit(status syscall.WaitStatus) {
	// The order is SSH's: the end of output, how the command ended, the end of the channel.
	s.ch.CloseWrite()
	if status.Signaled() {
		s.ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name    string
			Core    bool
			Message string
			Lang    string
		}{signalName(status.Signal()), status.CoreDump(), status.Signal().String(), ""}))
	} else {
		s.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status.ExitStatus())}))
	}
	s.ch.Close()
}

// closeFiles closes files that may be nil: pipes and terminals, whose closing has no result that
// matters.
func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// closeDescriptors closes each descriptor once, also where a command has one as several of its
// files.
func closeDescriptors(fds []int) {
	for _, fd := range slices.Compact(slices.Sorted(slices.Values(fds))) {
		syscall.Close(fd)
	}
}
