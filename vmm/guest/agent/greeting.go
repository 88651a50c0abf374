//go:build linux

package agent

import (
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest/protocol"
)

// greeting is the beginning of a life. First user processes are stopped and random numbers
// reseeded. Then renew gives the machine its own clock and names, beside the Ready and SSH's key
// exchange. The login waits for renew, so nothing can be asked of a machine that is still like its
// twins, and no user process runs on it.
type greeting struct {
	agent *Agent
	// As the host sent it, checked by ParseHello.
	hello   protocol.Hello
	renewed chan struct{} // closed when the machine is renewed, or could not be
	err     error         // why it could not be; read it after that
}

// begin answers a Hello and starts the SSH server of the life that it begins. It returns nil if
// there is none; the host kills the machine then. The answer is written in the background: the host
// may be writing at the same time, and the goroutine that calls begin is the one that reads that.
func (a *Agent) begin(out *output, line []byte) *life {
	// The steps of two lives must not mix. The next life's bytes wait in the port meanwhile.
	if a.greeting != nil {
		<-a.greeting.renewed
	}
	if protocol.HasAttach(line) {
		// The slowest step, and one that needs no random numbers. attach mounts again, for the error.
		a.goRecover("mount", func() { a.Machine.Mount() })
	}
	hello, err := protocol.ParseHello(line)
	b := &greeting{agent: a, hello: hello, renewed: make(chan struct{})}
	var server *ssh.ServerConfig
	if err == nil {
		server, err = b.prepare()
	}
	if err != nil {
		a.Log.Error("the machine did not become ready", "err", err)
		a.goRecover("refuse", func() { a.answer(out, protocol.Ready{Token: hello.Token, Error: err.Error()}) })
		return nil
	}
	a.greeting = b
	l := newLife(out)
	a.goRecover("renew", b.renew)
	a.goRecover("ssh", func() {
		if a.answer(out, protocol.Ready{Token: hello.Token}) {
			a.serve(l, server)
		}
	})
	return l
}

// answer writes the Ready that the host waits for, and reports whether it could.
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

// prepare reseeds the random numbers before user processes run, beside making the SSH server.
func (gr *greeting) prepare() (*ssh.ServerConfig, error) {
	made := make(chan struct{})
	var server *ssh.ServerConfig
	noServer := errors.New("the SSH server could not be made") // should it panic
	gr.agent.goRecover("keys", func() {
		defer close(made)
		server, noServer = newServer(gr)
	})
	m := gr.agent.Machine
	if err := m.FreezeUser(); err != nil {
		return nil, fmt.Errorf("stop user processes: %w", err)
	}
	if err := m.AddEntropy(gr.hello.Entropy); err != nil {
		return nil, fmt.Errorf("reseed random numbers: %w", err)
	}
	<-made
	return server, noServer
}

// renew gives this machine its own clock and names, and then lets user processes run. A step that
// fails ends the life: the login is refused with its error.
func (gr *greeting) renew() {
	// Whatever happens, the login and the next life must not wait for ever.
	defer close(gr.renewed)
	gr.err = errors.New("the machine could not be renewed") // should a step panic
	m, h := gr.agent.Machine, gr.hello
	gr.err = runSteps([]step{
		{"set the clock", func() error { return m.SetClock(h.Time) }},
		{"set the hostname", func() error { return m.SetHostname(h.Hostname) }},
		{"set the machine id", func() error { return m.SetMachineID(h.MachineID) }},
		{"continue user processes", m.ThawUser},
		{"attach", gr.attach},
	})
	if gr.err != nil {
		gr.agent.Log.Error("the machine did not become ready", "err", gr.err)
	}
}

// attach carries out the Hello's Attach, if it has one.
func (gr *greeting) attach() error {
	if gr.hello.Attach == nil {
		return nil
	}
	_, err := gr.agent.request(protocol.Attach, gr.hello.Attach)
	return err
}
