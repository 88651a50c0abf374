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

// outputGrace is how long output is awaited after a command's end, if something it left behind
// still has the pipe open. Output that is in the pipe is always sent; later output is read and
// dropped, so that daemons go on.
const outputGrace = 200 * time.Millisecond

// run starts the session's command. accepted answers the request for it, before anything else is
// sent. The goroutines go on without the session if the life ends before the command.
func (s *session) run(c command, accepted func()) {
	ends, err := connect(&c, s.pty, true)
	if err != nil {
		accepted()
		s.refuse(err)
		return
	}
	if s.conn.agent.first.running() { // the client may not wait that long for an answer
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

// stdio are the agent's ends of input and outputs; of a terminal in and out are one file.
type stdio struct{ in, out, err *os.File }

func (s stdio) all() []*os.File {
	if s.in == s.out {
		return []*os.File{s.in}
	}
	return []*os.File{s.in, s.out, s.err}
}

// connect gives c its files, a terminal's or pipes, and returns the other ends. Without input, c
// reads /dev/null. The caller closes c.files when c has started; after an error none is open.
func connect(c *command, p *pty, input bool) (ends stdio, err error) {
	if p != nil {
		c.files, c.tty = []int{p.slave, p.slave, p.slave}, true
		if p.term != "" {
			c.env["TERM"] = knownTerminal(p.term, terminfoDirs(c.user.Home))
		}
		p.own(c.user)
		p.slave = -1
		return stdio{in: p.master, out: p.master}, nil
	}
	for i, end := range []**os.File{&ends.in, &ends.out, &ends.err} {
		if i == 0 && !input {
			c.files = append(c.files, devNull())
			continue
		}
		commandEnd, agentEnd, err := newPipe(i == 0)
		if err != nil {
			closeDescriptors(c.files)
			closeFiles(ends.all()...)
			return ends, err
		}
		*end, c.files = agentEnd, append(c.files, commandEnd)
	}
	return ends, nil
}

// newPipe makes a pipe with one end for the command and one for the agent. The command's end
// blocks, as programs expect. The agent's does not, so that a deadline can end a read, which takes
// no thread either.
func newPipe(commandReads bool) (commandEnd int, agentEnd *os.File, err error) {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return -1, nil, os.NewSyscallError("pipe", err)
	}
	commandEnd, agentFD := p[1], p[0]
	if commandReads {
		commandEnd, agentFD = agentFD, commandEnd
	}
	if err := syscall.SetNonblock(agentFD, true); err != nil {
		closeDescriptors(p[:])
		return -1, nil, os.NewSyscallError("fcntl", err)
	}
	return commandEnd, os.NewFile(uintptr(agentFD), "pipe"), nil
}

// refuse tells the client why the command did not start, as a shell would.
func (s *session) refuse(err error) {
	out := io.Writer(s.ch.Stderr())
	line := fmt.Sprintf("agentbox: %v\n", err)
	if s.pty != nil {
		out, line = s.ch, fmt.Sprintf("agentbox: %v\r\n", err)
		s.pty.close()
	}
	io.WriteString(out, line) // a client that is gone needs no reason
	s.exit(syscall.WaitStatus(launchStatus(err) << 8))
}

// follow copies in both directions, and reports the command's end when all output was sent.
func (s *session) follow(p *process, ends stdio) {
	a, to := s.conn.agent, []io.Writer{s.ch, s.ch.Stderr()}
	a.goRecover("stdin", func() { s.copyIn(p, ends) })
	a.follow(p, ends, func(i int, r *os.File, flushed func()) { s.copyOut(to[i], r, flushed) }, func() { s.exit(p.status) })
}

// follow starts a goroutine for each output of a command. copyOut calls flushed when it has sent
// all that it will of output number i. ended is called when both have and the command has ended.
func (a *Agent) follow(p *process, ends stdio, copyOut func(i int, r *os.File, flushed func()), ended func()) {
	var flushed sync.WaitGroup
	outputs := slices.DeleteFunc([]*os.File{ends.out, ends.err}, func(f *os.File) bool { return f == nil })
	for i, f := range outputs {
		flushed.Add(1)
		a.goRecover("output", func() { copyOut(i, f, flushed.Done) })
	}
	a.goRecover("exit", func() {
		<-p.done
		for _, f := range outputs {
			f.SetReadDeadline(time.Now().Add(outputGrace)) // a closed file needs none
		}
		flushed.Wait()
		ended()
	})
}

// maxPipe is the most that a pipe holds, unless root made it larger (pipe(7)).
const maxPipe = 1 << 20

// drain passes what a command writes to send, until the command closes its end or send fails. The
// end of the command sets a deadline. From then on drain reads only what is left in the pipe, which
// is maxPipe bytes at most: a process that the command left behind may write without end.
func drain(r *os.File, send func([]byte) error) {
	buf := make([]byte, 32<<10)
	ended, left := false, maxPipe
	for left > 0 {
		n, err := r.Read(buf)
		if n > 0 && send(buf[:n]) != nil {
			return
		}
		if ended {
			left -= n
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && pending(r) > 0 {
			ended = true
			r.SetReadDeadline(time.Now().Add(outputGrace))
		} else if err != nil {
			return
		}
	}
}

func (s *session) copyOut(w io.Writer, r *os.File, flushed func()) {
	defer r.Close()
	drain(r, func(b []byte) error {
		_, err := w.Write(b)
		return err
	})
	flushed()
	stop := context.AfterFunc(s.conn.agent.ending, func() { r.Close() })
	defer stop()
	for {
		r.SetReadDeadline(time.Time{}) // the command may end, and set one, at any moment
		if _, err := io.Copy(io.Discard, r); !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// pending is how many bytes can be read from f without waiting; 0 if that is unknown.
func pending(f *os.File) int {
	n := 0
	raw, err := f.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return n
}

// copyIn passes on what the client sends. When the life ended the input stays open: the command
// goes on, and nobody has ended its input.
func (s *session) copyIn(p *process, ends stdio) {
	_, err := io.Copy(ends.in, s.ch)
	if s.conn.life.ended.Load() {
		<-p.done
	}
	// A terminal has one file for both directions, which the end of one must not close.
	switch {
	case ends.in != ends.out:
		ends.in.Close()
	case err == nil:
		ends.in.Write([]byte{4}) // ^D, the end of input of a terminal
	}
}

// exit reports how the command ended and closes the channel. Errors mean that the client is gone.
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

// closeFiles closes pipes and terminals, any of which may be nil. Their errors mean nothing.
func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// closeDescriptors closes each descriptor once, also if it is several of a command's files.
func closeDescriptors(fds []int) {
	for _, fd := range slices.Compact(slices.Sorted(slices.Values(fds))) {
		syscall.Close(fd)
	}
}
