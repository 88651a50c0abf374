package serving

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
	"agentbox/vmm/guest/protocol"
)

// machine is one whose ports are open elsewhere than they were asked for.
type machine struct {
	Machine
	open      []agentbox.Port
	forwarded []agentbox.ConfiguredPort
	fail      error
}

func (m *machine) Status(context.Context, place.Question) (place.Status, error) {
	return place.Status{Ports: m.open}, m.fail
}

func (m *machine) Forward(_ context.Context, ports []agentbox.ConfiguredPort) error {
	m.forwarded = ports
	return m.fail
}

func (m *machine) OpenPort(_ context.Context, port, _ int) (agentbox.Port, error) {
	return agentbox.Port{Box: port}, nil
}

func (m *machine) ClosePort(context.Context, int) error { return nil }

// Waiting ends when no more is to be expected, and says what is not ready.
func TestAwait(t *testing.T) {
	specs := []protocol.Service{{Name: "db"}, {Name: "web"}}
	at := func(db, web string) place.Status {
		return place.Status{Services: []agentbox.Service{{Name: "db", State: protocol.ServiceState(db), Error: "exit 1"}, {Name: "web", State: protocol.ServiceState(web)}}}
	}
	for name, c := range map[string]struct {
		states []place.Status
		says   []string
		counts string
	}{
		"ready":                 {[]place.Status{at("ready", "ready")}, nil, "2 of 2 ready"},
		"ready in time":         {[]place.Status{at("starting", "waiting"), at("ready", "starting"), at("ready", "ready")}, nil, "2 of 2 ready"},
		"nothing told at first": {[]place.Status{{}, {Services: at("ready", "ready").Services[:1]}, at("ready", "ready")}, nil, "2 of 2 ready"},
		"one failed": {[]place.Status{at("starting", "waiting"), at("failed", "waiting")},
			[]string{"service db is not ready (failed: exit 1): agentbox logs mine db", "service web is not ready (waiting): agentbox logs mine web"}, "0 of 2 ready"},
	} {
		asked, counts := 0, ""
		var output []string
		err := Await(t.Context(), "mine", specs, func(context.Context) (place.Status, error) {
			asked++
			return c.states[asked-1], nil
		}, func(e agentbox.Event) {
			switch {
			case e.Ended:
				counts = e.Detail
			case e.Note:
				output = append(output, e.Detail)
			}
		})
		if err != nil || asked != len(c.states) || !slices.Equal(output, c.says) || counts != c.counts {
			t.Errorf("%s: asked %d times, said %q, %q, %v", name, asked, output, counts, err)
		}
	}
}

func TestAwaitEnds(t *testing.T) {
	gone := errors.New("its machine is gone")
	status := func(context.Context) (place.Status, error) { return place.Status{}, gone }
	if err := Await(t.Context(), "mine", nil, status, nil); err != nil {
		t.Errorf("a box without services: %v", err)
	}
	if err := Await(t.Context(), "mine", []protocol.Service{{Name: "db"}}, status, nil); !errors.Is(err, gone) {
		t.Errorf("a box that is gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	starting := func(context.Context) (place.Status, error) {
		return place.Status{Services: []agentbox.Service{{Name: "db", State: "starting"}}}, nil
	}
	if err := Await(ctx, "mine", []protocol.Service{{Name: "db"}}, starting, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits: %v", err)
	}
}

// Ports are opened again as they are configured, and those that answer elsewhere are told.
func TestReopen(t *testing.T) {
	m := &machine{open: []agentbox.Port{{Box: 80, Host: "127.0.0.1:40001"}, {Box: 8080, Host: "127.0.0.1:8080"}}}
	ports := []agentbox.ConfiguredPort{{Box: 80, Host: 8081}, {Box: 8080, Host: 8080}}
	var output []string
	if err := Reopen(t.Context(), m, ports, func(e agentbox.Event) { output = append(output, e.Detail) }); err != nil || !slices.Equal(m.forwarded, ports) {
		t.Errorf("forwarded %v, %v", m.forwarded, err)
	}
	if len(output) != 1 || !strings.Contains(output[0], "port 8081 of this machine is taken: port 80 of the box answers at 127.0.0.1:40001") {
		t.Errorf("said %q", output)
	}
	none := &machine{fail: errors.New("asked")}
	if err := Reopen(t.Context(), none, nil, nil); err != nil {
		t.Errorf("no ports: %v", err)
	}
	if err := Reopen(t.Context(), none, ports, nil); !errors.Is(err, none.fail) {
		t.Errorf("not forwarded: %v", err)
	}
	ReportMoved(t.Context(), none, ports, func(e agentbox.Event) { t.Errorf("said %q of a machine that does not answer", e.Detail) })
}

func TestPorts(t *testing.T) {
	missing := errors.New("no such box")
	p := Ports{
		EnsureRunning: func(_ context.Context, ref api.BoxRef, _ agentbox.Progress) (Machine, error) {
			if ref.Box != "mine" {
				return nil, missing
			}
			return &machine{}, nil
		},
		Find: func(context.Context, api.BoxRef) (Machine, error) { return nil, missing },
	}
	if got, err := p.Open(t.Context(), api.PortRequest{BoxRef: api.BoxRef{Box: "mine"}, Port: 80}, nil); err != nil || got.Box != 80 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := p.Open(t.Context(), api.PortRequest{}, nil); !errors.Is(err, missing) {
		t.Errorf("open: %v", err)
	}
	if _, err := p.Close(t.Context(), api.PortRequest{}, nil); !errors.Is(err, missing) {
		t.Errorf("close: %v", err)
	}
}
