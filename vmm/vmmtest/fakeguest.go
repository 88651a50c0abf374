package vmmtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"agentbox/vmm"
)

// fakeGuest talks to a machine of the fake.
type fakeGuest struct {
	mu  sync.Mutex // one call at a time
	m   vmm.Machine
	dec *json.Decoder
}

// Connect begins a conversation with a machine of the fake: what it still answers to an earlier one
// is dropped.
func (d *Fake) Connect(ctx context.Context, m vmm.Machine) (Guest, error) {
	g := &fakeGuest{m: m, dec: json.NewDecoder(m.Stream())}
	token := make([]byte, 8)
	rand.Read(token) // never fails since Go 1.24
	if err := g.send(ctx, fakeCall{Op: "hello", Data: token}); err != nil {
		return nil, err
	}
	for {
		a, err := g.receive(ctx)
		if err != nil || bytes.Equal(a.Token, token) {
			return g, err
		}
	}
}

func (g *fakeGuest) send(ctx context.Context, c fakeCall) error {
	stop := g.interrupt(ctx)
	defer stop()
	return json.NewEncoder(g.m.Stream()).Encode(c)
}

func (g *fakeGuest) receive(ctx context.Context) (fakeAnswer, error) {
	stop := g.interrupt(ctx)
	defer stop()
	var a fakeAnswer
	err := g.dec.Decode(&a)
	return a, err
}

func (g *fakeGuest) interrupt(ctx context.Context) func() bool {
	g.m.Stream().SetDeadline(time.Time{})
	return context.AfterFunc(ctx, func() { g.m.Stream().SetDeadline(time.Unix(1, 0)) })
}

func (g *fakeGuest) call(ctx context.Context, c fakeCall) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.send(ctx, c); err != nil {
		return nil, err
	}
	a, err := g.receive(ctx)
	switch {
	case err != nil:
		return nil, err
	case a.Missing:
		return nil, fmt.Errorf("%s: %w", c.Name, os.ErrNotExist)
	case a.Error != "":
		return nil, errors.New(a.Error)
	}
	return a.Data, nil
}

func (g *fakeGuest) Put(ctx context.Context, p Place, name string, data []byte) error {
	_, err := g.call(ctx, fakeCall{Op: "put", Place: p, Name: []byte(name), Data: data})
	return err
}

func (g *fakeGuest) Get(ctx context.Context, p Place, name string) ([]byte, error) {
	return g.call(ctx, fakeCall{Op: "get", Place: p, Name: []byte(name)})
}

func (g *fakeGuest) Attach(ctx context.Context) error {
	_, err := g.call(ctx, fakeCall{Op: "attach"})
	return err
}

func (g *fakeGuest) Quiesce(context.Context) error { return nil }

func (g *fakeGuest) PowerOff(ctx context.Context) error {
	return g.send(ctx, fakeCall{Op: "poweroff"})
}

func (g *fakeGuest) Close() error { return nil }
