package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local/control"
	"agentbox/policy"
	"agentbox/tools/suites/supervisortest"
)

// superviseFake answers for the machine of a box until it has ended, as far as a change of policy
// needs; a child of ours holds the box's lock, as its supervisor does. enforce is what becomes of a
// policy.
func superviseFake(t *testing.T, rec record, names home.Box, enforce func(place.Policy) error) (ended <-chan struct{}) {
	t.Helper()
	_, _, ended = supervisortest.Hold(t, names.Lock(), supervisortest.Itself)
	l, err := net.Listen("unix", names.Control())
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	api.Handle(mux, control.Show, func(context.Context, place.Question, agentbox.Progress) (control.Status, error) {
		return control.Status{Status: place.Status{Configured: true, Life: rec.Life, AuditLogFailed: rec.Box.Name == unlogged, NoNetworkCard: rec.Box.Name == noCard}}, nil
	})
	api.Handle(mux, control.Wait, func(ctx context.Context, _ api.None, _ agentbox.Progress) (api.None, error) {
		select {
		case <-ctx.Done():
		case <-ended:
		}
		return api.None{}, nil
	})
	api.Handle(mux, control.Lease, func(_ context.Context, req control.LeaseRequest, _ agentbox.Progress) (api.None, error) {
		if req.Term != leaseTime {
			t.Errorf("a lease of %s", req.Term)
		}
		return api.None{}, nil
	})
	api.Handle(mux, control.Policy, func(_ context.Context, req place.Policy, _ agentbox.Progress) (api.None, error) {
		return api.None{}, enforce(req)
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return ended
}

// A change of the user's own is in force, whatever mistakes the repository makes.
func TestPolicyChangeWithInvalidConfig(t *testing.T) {
	h := newHome(t)
	known(t, h)
	dir := repository(t)
	if err := os.WriteFile(filepath.Join(dir, "agentbox.yaml"), []byte("cpuss: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := manage(t, h)
	var output []string
	ref := api.PolicyRef{BoxRef: api.BoxRef{Directory: dir}}
	report, err := m.Policies.Change(t.Context(), api.ChangeRequest{PolicyRef: ref, List: "deny", Rules: []string{rule}},
		func(e agentbox.Event) { output = append(output, e.Detail) })
	if err != nil || !denies(policy.Spec{Layers: report.Layers}) {
		t.Errorf("%+v, %v", report, err)
	}
	if len(output) != 1 || !strings.Contains(output[0], "agentbox.yaml:1: unknown key") {
		t.Errorf("said %q", output)
	}
	if _, err := m.Policies.Show(t.Context(), ref, nil); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("shown: %v", err)
	}
}

// unlogged is the name of the box whose audit log could not be written.
const unlogged = "unlogged"

// noCard is the name of the box whose machine has no network card.
const noCard = "no-card"

// rule is one that tests add, and denies whether a policy has it.
const rule = "evil.example"

func denies(s policy.Spec) bool {
	return policy.New(s, nil).Decide(policy.Flow{Proto: policy.TCP, Name: rule, Port: 443}).Source == policy.User
}

// known spares a test the tools that know the registries of this machine, which take seconds.
func known(t *testing.T, h home.Home) {
	t.Helper()
	if err := os.WriteFile(h.Registries(), []byte(fmt.Sprintf(`{"looked":%q}`, time.Now().Format(time.RFC3339))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// deny adds the rule for all boxes, for somebody who does not wait until they know.
func deny(t *testing.T, m *Manager) []string {
	t.Helper()
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	report, err := m.Policies.Change(ctx, api.ChangeRequest{Everywhere: true, List: "deny", Rules: []string{rule}}, nil)
	if err != nil {
		t.Error(err)
	}
	return report.Boxes
}

// A running box follows a change of policy, also while it is being made, and one that does not is
// stopped: it would go on under rules that were taken back.
func TestUnreachableBoxIsStoppedOnPolicyChange(t *testing.T) {
	h := newHome(t)
	known(t, h)
	var ended []<-chan struct{}
	var told [2]atomic.Bool
	for i, name := range []string{"follows", "being-made", "refuses"} {
		rec := newTestRecord(name)
		ended = append(ended, superviseFake(t, rec, write(t, h, rec), func(req place.Policy) error {
			switch {
			case !denies(req.Spec): // as it was before
			case i == len(told):
				return errors.New("its log cannot be written")
			default:
				told[i].Store(true)
			}
			return nil
		}))
	}
	m := manage(t, h)
	for _, b := range m.boxes.all() {
		if b.record().Box.Name == "being-made" {
			b.set(func(b *box) { b.rec.Phase = phaseNew })
		}
	}
	if boxes := deny(t, m); !slices.Equal(boxes, []string{"being-made", "follows"}) {
		t.Errorf("told %q", boxes)
	}
	supervisortest.Within(t, "the machine of a box that was not told", ended[2])
	for i := range told {
		select {
		case <-ended[i]:
			t.Error("a box that was told was stopped")
		default:
		}
		if !told[i].Load() {
			t.Error("a box was told of another policy")
		}
	}
	if b, err := m.Show(t.Context(), api.BoxRef{Box: "refuses"}, nil); err != nil || b.State != agentbox.Stopped {
		t.Errorf("%s, %v", b.State, err)
	}
}

// A box whose audit log could not be written reaches nothing already, so it goes on; who changes
// the policy is told.
func TestPolicyChangeWithoutNetwork(t *testing.T) {
	h := newHome(t)
	known(t, h)
	rec := newTestRecord(unlogged)
	asked := make(chan struct{}, 8)
	ended := superviseFake(t, rec, write(t, h, rec), func(place.Policy) error {
		asked <- struct{}{}
		return agentbox.Errorf(agentbox.NoSpace, "its audit log could not be written")
	})
	m := manage(t, h)
	supervisortest.Within(t, "the policy of a daemon that begins", asked)
	var output []agentbox.Event
	report, err := m.Policies.Change(t.Context(), api.ChangeRequest{Everywhere: true, List: "deny", Rules: []string{rule}},
		func(e agentbox.Event) { output = append(output, e) })
	if err != nil || len(report.Boxes) != 0 {
		t.Errorf("told %q, %v", report.Boxes, err)
	}
	if len(output) != 1 || output[0].Box != unlogged || output[0].Problem == nil || output[0].Problem.Kind != agentbox.ProblemAuditLog {
		t.Errorf("said %+v", output)
	}
	select {
	case <-ended:
		t.Error("the box was stopped")
	default:
	}
	if b, err := m.Show(t.Context(), api.BoxRef{Box: unlogged}, nil); err != nil || b.State != agentbox.Running || !slices.Contains(b.Problems, agentbox.Problem{Kind: agentbox.ProblemAuditLog}) {
		t.Errorf("%s, %v, %v", b.State, b.Problems, err)
	}
}

// What the last daemon did not live to tell, the next one does.
func TestAdoptSendsPolicy(t *testing.T) {
	h := newHome(t)
	known(t, h)
	deny(t, manage(t, h))
	rec := newTestRecord("mine")
	told := make(chan struct{})
	superviseFake(t, rec, write(t, h, rec), func(req place.Policy) error {
		if denies(req.Spec) {
			close(told)
		}
		return nil
	})
	manage(t, h)
	supervisortest.Within(t, "a policy of before", told)
}

// Of two changes the later one stays, though the box is slow to follow the first.
func TestLatestPolicyWins(t *testing.T) {
	h := newHome(t)
	known(t, h)
	rec := newTestRecord("mine")
	begun, release, landed := make(chan struct{}), make(chan struct{}), make(chan bool, 2)
	first := sync.OnceFunc(func() { close(begun); <-release })
	superviseFake(t, rec, write(t, h, rec), func(req place.Policy) error {
		if !denies(req.Spec) {
			first()
		}
		landed <- denies(req.Spec)
		return nil
	})
	m := manage(t, h)
	supervisortest.Within(t, "the first policy", begun)
	changed := make(chan struct{})
	go func() { defer close(changed); deny(t, m) }()
	select {
	case <-changed: // it overtook the first
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	supervisortest.Within(t, "the second policy", changed)
	if before, after := <-landed, <-landed; before || !after {
		t.Errorf("denied first: %v, then: %v", before, after)
	}
}
