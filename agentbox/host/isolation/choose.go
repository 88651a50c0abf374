// Package isolation decides which kind of machine a box gets on this host, and says why in one line
// that users see. It asks kinds and starts nothing. A box keeps its kind, because its disks have
// that kind's format.
package isolation

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/place"
)

// Kinds are the kinds of isolation that have drivers, the strongest first. Auto never chooses the
// last.
var Kinds = []agentbox.Isolation{agentbox.MicroVM, agentbox.GVisor, agentbox.Container}

// Env is the variable in the caller's environment that defines what auto means on this machine.
const Env = "AGENTBOX_ISOLATION"

// Choice is the kind of machine a box gets, and why, in one line.
type Choice struct {
	Kind   agentbox.Isolation
	Facts  place.Facts
	Reason string
}

// String is the line that the user sees.
func (c Choice) String() string {
	if c.Facts.Accel == "" {
		return fmt.Sprintf("%s: %s", c.Kind, c.Reason)
	}
	return fmt.Sprintf("%s/%s: %s", c.Kind, c.Facts.Accel, c.Reason)
}

// Preference is the isolation that somebody asks for; by is "" if nobody does.
type Preference struct {
	kind agentbox.Isolation
	by   string // --isolation, the name of a file, or AGENTBOX_ISOLATION
}

// PreferenceOf is what the flag asks for, else the configuration, else the machine. Auto
// counts as none.
func PreferenceOf(flag agentbox.Isolation, cfg *config.Config, environ []string) Preference {
	w := Preference{flag, "--isolation"}
	if w.kind == "" {
		w = Preference{cfg.Isolation, filepath.Base(cfg.Path)}
		if machine := variable(environ, Env); machine != "" && w.kind == agentbox.Auto {
			w = Preference{machine, Env}
		}
	}
	if w.kind == agentbox.Auto {
		w.by = ""
	}
	return w
}

// variable is the value of a variable in an environment, "" for none.
func variable(environ []string, name string) agentbox.Isolation {
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return agentbox.Isolation(value)
		}
	}
	return ""
}

// Chooser chooses among the kinds of places.
type Chooser struct {
	Kind func(agentbox.Isolation) (place.Kind, error)
}

// Choose decides on the kind of a new box: the one asked for, or the strongest that is fast here.
// It fails if the kind that is asked for does not work here, and takes no other.
func (c Chooser) Choose(ctx context.Context, w Preference) (Choice, error) {
	if w.by == "" {
		return c.Auto(ctx)
	}
	facts, err := c.Probe(ctx, w.kind, false)
	if err != nil {
		return Choice{}, fmt.Errorf("%s is asked for by %s: %w", w.kind, w.by, err)
	}
	reason := "asked for by " + w.by
	if why := explainReason(w.kind, facts); why != "" {
		reason += "; " + why
	}
	return Choice{w.kind, facts, reason}, nil
}

// Auto chooses hardware virtualization where it works, else a kernel in user space. It never chooses
// an emulated machine, which is slow and for which QEMU promises no isolation. If neither works, the
// error says why for each.
func (c Chooser) Auto(ctx context.Context) (Choice, error) {
	micro, microErr := c.Probe(ctx, agentbox.MicroVM, false)
	if microErr == nil && micro.Hardware {
		return Choice{agentbox.MicroVM, micro, explainReason(agentbox.MicroVM, micro)}, nil
	}
	why := micro.Reason
	if microErr != nil {
		why = agentbox.AsError(microErr).Message
	}
	soft, softErr := c.Probe(ctx, agentbox.GVisor, false)
	switch {
	case ctx.Err() != nil:
		return Choice{}, ctx.Err()
	case softErr == nil:
		return Choice{agentbox.GVisor, soft, "no hardware virtualization: " + why}, nil
	}
	e := agentbox.AsError(softErr)
	hint := e.Hint
	if microErr == nil {
		hint += "; or ask for an emulated machine, which is slow: --isolation microvm"
	}
	return Choice{}, agentbox.Errorf(e.Code, "no kind of isolation works here: microvm: %s; gvisor: %w", why, e).WithHint("%s", hint)
}

// ChooseExisting is the choice for a box that has its kind already. The reason changes only if the
// machine now runs in another way.
func (c Chooser) ChooseExisting(ctx context.Context, box agentbox.Box) (Choice, error) {
	facts, err := c.Probe(ctx, box.Isolation, false)
	if err != nil {
		return Choice{}, err
	}
	kept := Choice{box.Isolation, facts, box.Reason}
	if facts.Accel != box.Accel {
		kept.Reason = explainReason(kept.Kind, facts)
	}
	return kept, nil
}

// explainReason is the kind's reason, and what it means for the user of the box.
func explainReason(kind agentbox.Isolation, facts place.Facts) string {
	if kind == agentbox.MicroVM && !facts.Hardware {
		return facts.Reason + ", so the machine is emulated: it computes slowly, and QEMU promises no isolation"
	}
	return facts.Reason
}

// Probe is what a kind finds out about this host; fresh ignores what it remembers.
func (c Chooser) Probe(ctx context.Context, kind agentbox.Isolation, fresh bool) (place.Facts, error) {
	k, err := c.Kind(kind)
	if err != nil {
		return place.Facts{}, err
	}
	return k.Probe(ctx, fresh)
}

// Check returns Conflict if the user insists on a kind that the box does not have, and Invalid if
// there is no such kind.
func Check(box agentbox.Box, flag agentbox.Isolation) error {
	if flag == "" || flag == agentbox.Auto || flag == box.Isolation {
		return nil
	}
	if !slices.Contains(Kinds, flag) {
		return agentbox.Errorf(agentbox.Invalid, "--isolation: %q is not a kind of isolation", flag).WithHint("use auto, microvm, gvisor or container")
	}
	return agentbox.Errorf(agentbox.Conflict, "box %s is %s, and a box keeps its kind of isolation", box.Name, box.Isolation).
		WithHint("make another box: agentbox pull %s keeps its work, then agentbox rm %s and agentbox up --isolation %s", box.Name, box.Name, flag)
}
