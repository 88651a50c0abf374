package supervisors

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local/control"
)

// Ask calls the supervisor of a box, without progress. If the supervisor has ended, the error says
// why.
func Ask[Req, Resp any](ctx context.Context, s *Supervisor, e api.Endpoint[Req, Resp], req Req) (Resp, error) {
	resp, err := api.Call(ctx, s.Client, e, req, nil)
	return resp, s.Explain(ctx, err)
}

// Explain replaces the error of a call that nobody answered by why the supervisor ended, for which
// it waits: a supervisor stops answering a moment before it is gone. Other errors are unchanged.
func (s *Supervisor) Explain(ctx context.Context, err error) error {
	if !api.IsUnreachable(err) {
		return err
	}
	select {
	case <-s.Done:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(stopTimeout):
		return err // it lives, and does not answer
	}
	id := filepath.Base(s.Box.Dir)
	exit, ok, _ := s.Exit()
	if !ok {
		return EndedError(id, agentbox.End{Cause: agentbox.EndKilled}).WithHint("run the command again: nothing of the workspace is lost")
	}
	why := EndedError(id, exit.End)
	if exit.Reason != nil {
		why = agentbox.AsError(fmt.Errorf("box %s: %w", id, exit.Reason))
	}
	if why.Hint == "" {
		why.Hint = "agentbox logs --supervisor " + id
	}
	return why
}

// EndedError is the error of a box whose machine is gone. End is a field, not part of the text.
func EndedError(id string, end agentbox.End) *agentbox.Error {
	e := agentbox.Errorf(agentbox.Unavailable, "box %s ended", id)
	e.End = &end
	return e
}

// Status is a supervisor's report of itself and, on request, of its guest. It waits while the
// machine starts.
func (s *Supervisor) Status(ctx context.Context, ask place.Question) (place.Status, error) {
	st, err := Ask(ctx, s, control.Show, ask)
	return st.Status, err
}

// ApplyPolicy puts in force what compose returns. compose is called with the lock held, so of two
// calls the one that composed later is in force in the end.
func (s *Supervisor) ApplyPolicy(ctx context.Context, compose func() (place.Policy, error)) error {
	s.policy.Lock()
	defer s.policy.Unlock()
	req, err := compose()
	if err != nil {
		return err
	}
	_, err = Ask(ctx, s, control.Policy, req)
	return err
}

// Limit replaces the limits. A supervisor of an earlier build gets them by its policy.
func (s *Supervisor) Limit(ctx context.Context, l place.Limits) error {
	_, err := Ask(ctx, s, control.Limits, l)
	if control.IsUnknown(err) {
		return nil
	}
	return err
}

// Forward opens configured ports.
func (s *Supervisor) Forward(ctx context.Context, ports []agentbox.ConfiguredPort) error {
	_, err := Ask(ctx, s, control.Ports, ports)
	return err
}

// OpenPort forwards a port to the host's loopback and returns its address.
func (s *Supervisor) OpenPort(ctx context.Context, port, local int) (agentbox.Port, error) {
	return Ask(ctx, s, control.Open, api.PortRequest{Port: port, Host: local})
}

// ClosePort ends a forwarding.
func (s *Supervisor) ClosePort(ctx context.Context, port int) error {
	_, err := Ask(ctx, s, control.Close, api.PortRequest{Port: port})
	return err
}
