package vmmtest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"

	"agentbox/agentbox"
	"agentbox/vmm"
)

// fakeMachine is a guest in a goroutine.
type fakeMachine struct {
	spec  vmm.Spec
	host  net.Conn // our end of the stream
	guest net.Conn // the guest's

	mu       sync.Mutex // guards what follows; the guest holds it while it works
	thawed   *sync.Cond
	state    fakeState // as saved, with the memory as it is now
	frozen   bool
	ending   bool
	attached bool
	err      error
	done     chan struct{}
}

// fakeCall is one line from the host, fakeAnswer one from the guest.
type (
	fakeCall struct {
		Op    string
		Place Place
		Name  []byte // any bytes, which a JSON string cannot hold
		Data  []byte
	}
	fakeAnswer struct {
		Token   []byte // of a hello
		Data    []byte
		Missing bool
		Error   string
	}
)

func startFake(s vmm.Spec, state fakeState) (*fakeMachine, error) {
	if err := os.MkdirAll(runtimeDir(s), 0o700); err != nil {
		return nil, err
	}
	if state.Memory == nil {
		state.Memory = map[string][]byte{}
	}
	m := &fakeMachine{spec: s, state: state, attached: state.Attached, done: make(chan struct{})}
	m.thawed = sync.NewCond(&m.mu)
	m.host, m.guest = net.Pipe()
	go m.run()
	return m, nil
}

// run is the guest. It ends when its end of the stream is closed.
func (m *fakeMachine) run() {
	defer close(m.done)
	defer m.guest.Close()
	in, out := json.NewDecoder(m.guest), json.NewEncoder(m.guest)
	for {
		var c fakeCall
		if in.Decode(&c) != nil {
			return
		}
		answer, goOn := m.serve(c)
		if !goOn || out.Encode(answer) != nil {
			return
		}
	}
}

// serve does what the host asks for, once the machine is not frozen.
func (m *fakeMachine) serve(c fakeCall) (fakeAnswer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.frozen && !m.ending {
		m.thawed.Wait()
	}
	if m.ending || c.Op == "poweroff" {
		return fakeAnswer{}, false
	}
	var a fakeAnswer
	err := error(nil)
	switch c.Op {
	case "hello":
		a.Token = c.Data
	case "attach":
		m.attached = true
	case "put":
		err = m.put(c)
	case "get":
		a.Data, err = m.get(c)
	}
	if err != nil {
		a.Missing, a.Error = errors.Is(err, os.ErrNotExist), err.Error()
	}
	return a, true
}

func (m *fakeMachine) path(c fakeCall) (string, error) {
	switch {
	case c.Place == Runtime:
		return filepath.Join(runtimeDir(m.spec), string(c.Name)), nil
	case !m.attached || m.spec.Workspace == "":
		return "", errors.New("there is no workspace")
	}
	return filepath.Join(m.spec.Workspace, string(c.Name)), nil
}

func (m *fakeMachine) put(c fakeCall) error {
	if c.Place == Memory {
		m.state.Memory[string(c.Name)] = c.Data
		return nil
	}
	path, err := m.path(c)
	if err != nil {
		return err
	}
	return os.WriteFile(path, c.Data, 0o644)
}

func (m *fakeMachine) get(c fakeCall) ([]byte, error) {
	if c.Place == Memory {
		data, ok := m.state.Memory[string(c.Name)]
		if !ok {
			return nil, os.ErrNotExist
		}
		return data, nil
	}
	path, err := m.path(c)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func (m *fakeMachine) Stream() net.Conn      { return m.host }
func (m *fakeMachine) PIDs() []int           { return []int{os.Getpid()} }
func (m *fakeMachine) Done() <-chan struct{} { return m.done }

func (m *fakeMachine) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

func (m *fakeMachine) Freeze(ctx context.Context) error { return m.setFrozen(ctx, true) }
func (m *fakeMachine) Thaw(ctx context.Context) error   { return m.setFrozen(ctx, false) }

func (m *fakeMachine) setFrozen(ctx context.Context, frozen bool) error {
	select {
	case <-m.done:
		return agentbox.Errorf(agentbox.Unavailable, "the machine %s has ended", m.spec.Name)
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = frozen
	m.thawed.Broadcast()
	return nil
}

func (m *fakeMachine) Kill() error {
	m.end(nil)
	return nil
}

// Crash ends a machine of the fake as a VMM's death would.
func (d *Fake) Crash(vm vmm.Machine) error {
	m, ok := vm.(*fakeMachine)
	if !ok {
		return errors.New("not a machine of the fake")
	}
	m.end(agentbox.Errorf(agentbox.Unavailable, "the machine %s crashed", m.spec.Name))
	return nil
}

func (m *fakeMachine) end(why error) {
	m.mu.Lock()
	if !m.ending {
		m.ending, m.err = true, why
	}
	m.thawed.Broadcast()
	m.mu.Unlock()
	m.guest.Close()
	<-m.done
}
