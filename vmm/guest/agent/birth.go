//go:build linux

package agent

import (
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest/protocol"
)

// birth is the beginning of a life. Random numbers come first, since everything but the mount of
// the workspace draws them. Then the SSH handshake goes on while the machine becomes another one
// than its twins; the login waits for that, so nothing can be asked of a machine that is not
// renewed, and no user process runs on it. In order: user processes are stopped and random numbers
// reseeded; then renew runs beside the Ready and SSH's handshake.
type birth struct {
	agent *Agent
	// As the host sent it, checked by ParseHello.
	hello   protocol.Hello
	renewed chan struct{} // closed when the machine is renewed, or could not be
	err     error         // why it could not be; read it after that
}

// begin answers a Hello and starts the SSH server of the life it begins. It returns nil when there
// is no life to go on with: the host kills the machine then. The answer is written in the
// background: the host may be writing at the same time, and the goroutine that calls begin is the
// one that reads that. It waits for the life before to be renewed, or given up.
func (a *Agent) begin(out *output, line []byte) *life {
	// The reader of the stream stands still meanwhile: the next life's bytes wait in the port.
	if a.birth != nil {
		<-a.birth.renewed // the steps of two lives must not mix
	}
	if protocol.AsksToAttach(line) {
		// The slowest step, and one without random numbers. Attach mounts again, and learns what
		// went wrong.
		a.goDo("mount", func() { a.Machine.Mount() })
	}
	hello, err := protocol.ParseHello(line)
	b := &birth{agent: a, hello: hello, renewed: make(chan struct{})}
	var server *ssh.ServerConfig
	if err == nil {
		server, err = b.prepare()
	}
	if err != nil {
		a.Log.Error("life did not begin", "err", err)
		a.goDo("refuse", func() { a.answer(out, protocol.Ready{Token: hello.Token, Error: err.Error()}) })
		return nil
	}
	a.birth = b
	l := newLife(out)
	a.goDo("renew", b.renew)
	a.goDo("ssh", func() {
		if a.answer(out, protocol.Ready{Token: hello.Token}) {
			a.serve(l, server)
		}
	})
	return l
}

// answer writes what the host waits for after its Hello, and tells whether it could. With an Error
// the host kills the machine.
func (a *Agent) answer(out *output, ready protocol.Ready) bool {
	ready.Version, ready.Kernel = protocol.Version, a.Machine.Kernel
	message, err := protocol.AppendLife(nil, ready)
	if err == nil {
		out.mu.Lock()
		_, err = out.w.Write(message)
		out.mu.Unlock()
	}
	if err != nil {
		a.Log.Error("cannot answer hello", "err", err)
	}
	return err == nil
}

// prepare reseeds the machine's random numbers while no user process runs, and makes the SSH server
// at the same time: its key comes with the hello. The server is made by another goroutine, on
// another CPU where there is one.
func (b *birth) prepare() (*ssh.ServerConfig, error) {
	made := make(chan struct{})
	var server *ssh.ServerConfig
	noServer := errors.New("the SSH server could not be made") // should it panic
	b.agent.goDo("keys", func() {
		defer close(made)
		server, noServer = newServer(b)
	})
	m := b.agent.Machine
	if err := m.FreezeUser(); err != nil {
		return nil, fmt.Errorf("stop user processes: %w", err)
	}
	if err := m.AddEntropy(b.hello.Entropy); err != nil {
		return nil, fmt.Errorf("reseed random numbers: %w", err)
	}
	<-made
	return server, noServer
}

// renew makes this machine another one than its twins, and then lets user processes run. A step
// that fails ends the life: the login is refused with its error.
func (b *birth) renew() {
	// Whatever happens, the login and the next life must not wait for ever.
	defer close(b.renewed)
	b.err = errors.New("the machine could not be renewed") // should a step panic
	m, h := b.agent.Machine, b.hello
	b.err = runSteps([]step{
		{"set the clock", func() error { return m.SetClock(h.Time) }},
		{"set the hostname", func() error { return m.SetHostname(h.Hostname) }},
		{"set the machine id", func() error { return m.SetMachineID(h.MachineID) }},
		{"continue user processes", m.ThawUser},
		{"warm up", b.warmUp},
		{"attach", b.attach},
	})
	if b.err != nil {
		b.agent.Log.Error("life did not begin", "err", b.err)
	}
}

// warmUp runs what the box's first command will, while another CPU is busy with the greeting: an
// emulated machine translates the code of both at the same time then, and finds the translations
// when the command comes. It goes on in the background and delays nothing; what it starts counts as
// any process of the box.
func (b *birth) warmUp() error {
	if b.hello.Attach != nil && b.agent.Machine.WarmUp {
		b.agent.goDo("warm up", func() { b.agent.perform(warmUps[0]) })
	}
	return nil
}

// attach does what the Hello asks for beyond a renewed machine.
func (b *birth) attach() error {
	if b.hello.Attach == nil {
		return nil
	}
	_, err := b.agent.request(protocol.Attach, b.hello.Attach)
	return err
}
