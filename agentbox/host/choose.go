package host

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/vmm"
)

// kinds are the kinds of isolation that auto chooses from, the strongest first.
var kinds = []agentbox.Isolation{agentbox.MicroVM, agentbox.GVisor}

// envIsolation says what auto means on this machine, to whoever has it in the environment.
const envIsolation = "AGENTBOX_ISOLATION"

// choice is the isolation a box gets and why, in one line.
type choice struct {
	kind   agentbox.Isolation
	facts  vmm.Facts
	reason string
}

// String is the line that a user is told.
func (c choice) String() string {
	if c.facts.Accel == "" {
		return fmt.Sprintf("%s: %s", c.kind, c.reason)
	}
	return fmt.Sprintf("%s/%s: %s", c.kind, c.facts.Accel, c.reason)
}

// wish is the isolation somebody asks for; by is "" when nobody does.
type wish struct {
	kind agentbox.Isolation
	by   string // --isolation, the name of a file, or AGENTBOX_ISOLATION
}

// wishOf is the flag's word, else the configuration's, else the machine's.
func wishOf(flag agentbox.Isolation, cfg *config.Config, environ []string) wish {
	w := wish{flag, "--isolation"}
	if w.kind == "" {
		w = wish{cfg.Isolation, filepath.Base(cfg.Path)}
		if machine := variable(environ, envIsolation); machine != "" && w.kind == agentbox.Auto {
			w = wish{machine, envIsolation}
		}
	}
	if w.kind == agentbox.Auto {
		w.by = ""
	}
	return w
}

func variable(environ []string, name string) agentbox.Isolation {
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return agentbox.Isolation(value)
		}
	}
	return ""
}

// choose settles on a kind of isolation for a new box: the one asked for, or the strongest that is fast here.
func (m *Manager) choose(ctx context.Context, w wish) (choice, error) {
	if w.by == "" {
		return m.chooseAuto(ctx)
	}
	facts, err := m.probe(ctx, w.kind, false)
	if err != nil {
		return choice{}, fmt.Errorf("%s is asked for by %s: %w", w.kind, w.by, err)
	}
	reason := "asked for by " + w.by
	if why := consequence(w.kind, facts); why != "" {
		reason += "; " + why
	}
	return choice{w.kind, facts, reason}, nil
}

// chooseAuto takes hardware virtualization where it works, else a kernel in user space, else an emulated machine.
func (m *Manager) chooseAuto(ctx context.Context) (choice, error) {
	micro, microErr := m.probe(ctx, agentbox.MicroVM, false)
	if microErr == nil && micro.Hardware {
		return choice{agentbox.MicroVM, micro, consequence(agentbox.MicroVM, micro)}, nil
	}
	why := micro.Reason
	if microErr != nil {
		why = agentbox.AsError(microErr).Message
	}
	soft, softErr := m.probe(ctx, agentbox.GVisor, false)
	switch {
	case ctx.Err() != nil:
		return choice{}, ctx.Err()
	case softErr == nil:
		return choice{agentbox.GVisor, soft, "no hardware virtualization: " + why}, nil
	case microErr == nil:
		reason := fmt.Sprintf("%s; no gVisor either: %s", consequence(agentbox.MicroVM, micro), agentbox.AsError(softErr).Message)
		return choice{agentbox.MicroVM, micro, reason}, nil
	}
	e := agentbox.AsError(softErr)
	return choice{}, agentbox.Errorf(e.Code, "no kind of isolation works here: microvm: %s; gvisor: %w", why, e).WithHint("%s", e.Hint)
}

// keep is the choice for a box that has its kind already, as it is here now.
func (m *Manager) keep(ctx context.Context, box agentbox.Box) (choice, error) {
	facts, err := m.probe(ctx, box.Isolation, false)
	if err != nil {
		return choice{}, err
	}
	c := choice{box.Isolation, facts, box.Reason}
	if facts.Accel != box.Accel {
		c.reason = consequence(c.kind, facts)
	}
	return c, nil
}

// consequence is what the driver found out, and what it means to whoever uses the box.
func consequence(kind agentbox.Isolation, facts vmm.Facts) string {
	if kind == agentbox.MicroVM && !facts.Hardware {
		return facts.Reason + ", so the machine is emulated: it computes slowly, and QEMU promises no isolation"
	}
	return facts.Reason
}

func (m *Manager) probe(ctx context.Context, kind agentbox.Isolation, fresh bool) (vmm.Facts, error) {
	driver, err := m.driver(kind)
	if err != nil {
		return vmm.Facts{}, err
	}
	return driver.Probe(ctx, fresh)
}

// checkKind refuses to find a box of another kind than the one the user insists on: a box keeps its kind for life.
func checkKind(box agentbox.Box, flag agentbox.Isolation) error {
	if flag == "" || flag == agentbox.Auto || flag == box.Isolation {
		return nil
	}
	return agentbox.Errorf(agentbox.Conflict, "box %s is %s, and a box keeps its kind for life", box.Name, box.Isolation).
		WithHint("agentbox rm %s, then up --isolation %s (git fetch %s first brings its commits home)", box.Name, flag, box.Name)
}
