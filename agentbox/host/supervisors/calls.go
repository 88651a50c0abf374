package supervisors

import (
	"context"
	"fmt"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/supervisor"
)

// Ask calls the supervisor of a box, without progress. If it has gone meanwhile, the error says
// why.
func Ask[Req, Resp any](ctx context.Context, s *Supervisor, e api.Endpoint[Req, Resp], req Req) (Resp, error) {
	resp, err := api.Call(ctx, s.Client, e, req, nil)
	if api.Unreached(err) {
		err = WhyGone(s.Box, err)
	}
	return resp, err
}

// WhyGone replaces "no answer" by what the supervisor of a box left as its reason. It stays there
// for who writes it down. It changes only errors of code Unavailable: others are an answer.
func WhyGone(names home.Box, err error) error {
	if agentbox.CodeOf(err) != agentbox.Unavailable {
		return err
	}
	id := filepath.Base(names.Dir)
	if exit, ok, _ := supervisor.ReadExit(names.Dir); ok {
		why := boxEnded(id, exit.End)
		if exit.Reason != nil {
			why = agentbox.AsError(fmt.Errorf("box %s: %w", id, exit.Reason))
		}
		if why.Hint == "" {
			why.Hint = "see " + names.Log()
		}
		return why
	}
	if api.Unreached(err) {
		return boxEnded(id, agentbox.End{Cause: agentbox.EndKilled}).WithHint("run the command again: nothing of the workspace is lost")
	}
	return err
}

// boxEnded is the error of a box whose machine is gone. Why is a fact of it, not a part of its text.
func boxEnded(id string, end agentbox.End) *agentbox.Error {
	e := agentbox.Errorf(agentbox.Unavailable, "box %s ended", id)
	e.End = &end
	return e
}

// Status is what a supervisor says of itself, and of its guest where that is asked for. It waits
// while the machine starts.
func (s *Supervisor) Status(ctx context.Context, req api.StatusRequest) (api.SupervisorStatus, error) {
	return api.Call(ctx, s.Client, api.SupervisorStatusE, req, nil)
}

// Save writes the state of its machine, which goes on.
func (s *Supervisor) Save(ctx context.Context, req api.SaveRequest) error {
	_, err := Ask(ctx, s, api.SupervisorSave, req)
	return err
}

// Govern puts in force what compose gives. Of two calls the later one stays: compose is called with
// the lock held, so what it reads is not older than what the call before it put in force.
func (s *Supervisor) Govern(ctx context.Context, compose func() (api.PolicyInForce, error)) error {
	s.policy.Lock()
	defer s.policy.Unlock()
	req, err := compose()
	if err != nil {
		return err
	}
	_, err = api.Call(ctx, s.Client, api.SupervisorPolicy, req, nil)
	return err
}

// Forward opens the ports that a configuration names.
func (s *Supervisor) Forward(ctx context.Context, ports []agentbox.ConfiguredPort) error {
	_, err := Ask(ctx, s, api.SupervisorPorts, ports)
	return err
}

// OpenPort forwards a port to the host's loopback, and says where it answers.
func (s *Supervisor) OpenPort(ctx context.Context, req api.PortRequest) (agentbox.Port, error) {
	return Ask(ctx, s, api.SupervisorOpen, req)
}

// ClosePort ends a forwarding.
func (s *Supervisor) ClosePort(ctx context.Context, req api.PortRequest) error {
	_, err := Ask(ctx, s, api.SupervisorClose, req)
	return err
}
