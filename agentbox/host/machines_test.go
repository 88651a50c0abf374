package host

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/place/local/control"
	"agentbox/agentbox/place/local/supervisor"
	"agentbox/agentbox/place/local/supervisors"
	"agentbox/vmm"
	"agentbox/vmm/image"
	"agentbox/vmm/partial"
)

// fakePolicies governs every machine in the same way; its images are all here.
type fakePolicies struct{ why error }

func (f fakePolicies) Enforce(ctx context.Context, m egress.Machine, _ egress.Subject) error {
	return m.ApplyPolicy(ctx, func() (control.PolicyInForce, error) { return control.PolicyInForce{}, f.why })
}
func (fakePolicies) Placeholders(egress.Subject) map[string]string {
	return map[string]string{"TOKEN": "placeholder"}
}
func (fakePolicies) Packages(context.Context, string) (env, files map[string]string) {
	return map[string]string{"A": "package's", "PIP": "there"}, nil
}
func (fakePolicies) Lazy(context.Context, agentbox.Isolation, string, agentbox.Progress) (*image.Image, error) {
	return nil, nil
}
func (fakePolicies) Partial(context.Context, image.Image) (partial.Image, error) {
	return partial.Image{}, errors.New("an image that is all here is asked for in part")
}

// calls are what a supervisor was asked, in order.
type calls struct {
	sync.Mutex
	names []string
	start control.StartRequest
	// onStart stands for what a supervisor does with its machine when it is told to start; nil: all is
	// well.
	onStart func(supervisor.Config) error
}

func (c *calls) record(name string) {
	c.Lock()
	defer c.Unlock()
	c.names = append(c.names, name)
}

// newTestMachines are machines of a home whose supervisors answer and remember what they were
// asked.
func newTestMachines(t *testing.T, h home.Home, why error) (*machines, *calls) {
	t.Helper()
	c := &calls{}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	start := func(cfg supervisor.Config, _ vmm.Template) (*supervisors.Supervisor, error) {
		names := h.Box(cfg.Box)
		l, err := net.Listen("unix", names.Control())
		if err != nil {
			return nil, err
		}
		s := &supervisors.Supervisor{Client: api.NewClient(names.Control()), Done: make(chan struct{}), Box: names}
		mux := http.NewServeMux()
		api.Handle(mux, control.Policy, func(context.Context, control.PolicyInForce, agentbox.Progress) (api.None, error) {
			c.record("policy")
			return api.None{}, nil
		})
		api.Handle(mux, control.Start, func(_ context.Context, req control.StartRequest, _ agentbox.Progress) (control.Status, error) {
			c.record("start")
			c.start = req
			if c.onStart != nil {
				return control.Status{}, c.onStart(cfg)
			}
			return control.Status{}, nil
		})
		api.Handle(mux, control.Ports, func(context.Context, []agentbox.ConfiguredPort, agentbox.Progress) (api.None, error) {
			return api.None{}, nil
		})
		api.Handle(mux, control.Show, func(context.Context, control.StatusRequest, agentbox.Progress) (control.Status, error) {
			return control.Status{}, nil
		})
		api.Handle(mux, control.Stop, func(context.Context, control.StopRequest, agentbox.Progress) (api.None, error) {
			c.record("stop")
			close(s.Done)
			return api.None{}, nil
		})
		server := &http.Server{Handler: mux}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { server.Close() })
		return s, nil
	}
	m := &machines{home: h, disk: disk{home: h}, images: fakePolicies{}, policies: fakePolicies{why}, spawn: start, log: slog.New(slog.DiscardHandler), ctx: ctx, running: &running}
	return m, c
}

// A machine that becomes a box as it starts has its policy before anything of the box runs, and is
// told what the box is.
func TestPolicyBeforeAttach(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("mine")
	write(t, h, rec)
	m, c := newTestMachines(t, h, nil)
	b := &box{rec: rec}
	complete := func() error { c.record("workspace"); return nil }
	if err := m.start(t.Context(), b, launch{complete: complete}, nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{"policy", "workspace", "start"}; !slices.Equal(c.names, want) || b.supervisor() == nil {
		t.Errorf("%v, want %v; live %v", c.names, want, b.supervisor() != nil)
	}
	at := c.start.Guest
	if at == nil || at.Hostname != "mine" || at.Env["A"] != "b" || at.Env["PIP"] != "there" || at.Env["TOKEN"] != "placeholder" {
		t.Errorf("attached %+v", at)
	}
}

// A machine of the pool is nobody's: it has no policy, and does not become a box.
func TestPooledMachineHasNoPolicy(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("")
	rec.Phase = phasePool
	write(t, h, rec)
	m, c := newTestMachines(t, h, nil)
	b := &box{rec: rec}
	if err := m.start(t.Context(), b, launch{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.applyPolicy(t.Context(), b); err != nil || !slices.Equal(c.names, []string{"start"}) || c.start.Guest != nil {
		t.Errorf("%v, attached %v, %v", c.names, c.start.Guest, err)
	}
}

// Whatever is not to be had before a machine is a box, the machine goes.
func TestFailedAttachStopsMachine(t *testing.T) {
	no := errors.New("no")
	for name, c := range map[string]struct {
		policy, workspace error
		asked             []string
	}{
		"no policy":    {no, nil, []string{"stop"}},
		"no workspace": {nil, no, []string{"policy", "stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			rec := newTestRecord("mine")
			write(t, h, rec)
			m, asked := newTestMachines(t, h, c.policy)
			b := &box{rec: rec}
			err := m.start(t.Context(), b, launch{complete: func() error { return c.workspace }}, nil)
			if !errors.Is(err, no) || !slices.Equal(asked.names, c.asked) || b.supervisor() != nil {
				t.Errorf("%v, asked %v, live %v", err, asked.names, b.supervisor() != nil)
			}
		})
	}
}

// A machine can end between its start and the next thing that is asked of it, and the daemon goes
// on.
func TestAttachEndedPooledMachine(t *testing.T) {
	h := newHome(t)
	m, _ := newTestMachines(t, h, nil)
	if err := m.hold(t.Context(), &box{rec: newTestRecord("")}); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("%v", err)
	}
}
