// Package isolation decides which kind of machine a box gets on this host, and says why in one line
// that users see. It asks kinds and starts nothing. A box keeps its kind, because its disks have
// that kind's format.
package isolation

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/place"
)

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

// Choose decides on the kind of a new box: the one asked for, or the first that is fast here. It
// fails if the kind that is asked for does not work here, and takes no other.
func (c Chooser) Choose(ctx context.Context, w Preference) (Choice, error) {
	if w.by == "" {
		return c.Auto(ctx)
	}
	if w.kind == agentbox.Lima {
		return Choice{}, agentbox.Errorf(agentbox.Invalid, "%s asks for the machine by Lima, into which only up, run, agent and task submit go", w.by).WithHint("use another --isolation")
	}
	facts, err := c.Probe(ctx, w.kind, false)
	if err != nil {
		return Choice{}, fmt.Errorf("%s is asked for by %s: %w", w.kind, w.by, err)
	}
	reason := "asked for by " + w.by
	if why := Explain(w.kind, facts); why != "" {
		reason += "; " + why
	}
	return Choice{w.kind, facts, reason}, nil
}

// Auto chooses the first kind of the table that works here and may be chosen. An emulated machine is
// slow, and QEMU promises no isolation for it, so only who asks for one gets it. If no kind is left,
// the error says why for each, with the hint of the last.
func (c Chooser) Auto(ctx context.Context) (Choice, error) {
	var refused []string
	var last error
	emulated := ""
	for _, kind := range agentbox.Kinds {
		if !kind.Auto {
			continue
		}
		facts, err := c.Probe(ctx, kind.Name, false)
		switch {
		case ctx.Err() != nil:
			return Choice{}, ctx.Err()
		case err != nil:
			last = err
		case kind.HardwareOnly && !facts.Hardware:
			err = agentbox.Errorf(agentbox.Missing, "%s", facts.Reason)
			emulated = fmt.Sprintf("; or --isolation %s: it is emulated here, so it is slow and isolates less", kind.Name)
		default:
			return Choice{kind.Name, facts, cmp.Or(strings.Join(refused, "; "), Explain(kind.Name, facts))}, nil
		}
		what := string(kind.Name)
		if kind.HardwareOnly {
			what = "hardware virtualization"
		}
		refused = append(refused, fmt.Sprintf("no %s: %s", what, agentbox.AsError(err).Message))
	}
	e := agentbox.AsError(last)
	return Choice{}, agentbox.Errorf(e.Code, "no kind of isolation works here: %s", strings.Join(refused, "; ")).WithHint("%s%s", e.Hint, emulated)
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
		kept.Reason = Explain(kept.Kind, facts)
	}
	return kept, nil
}

// Explain is the kind's reason, and what it means for the user of the box.
func Explain(kind agentbox.Isolation, facts place.Facts) string {
	if agentbox.KindOf(kind).HardwareOnly && !facts.Hardware {
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
	if err := agentbox.CheckIsolation(flag); err != nil {
		return fmt.Errorf("--isolation: %w", err)
	}
	return agentbox.Errorf(agentbox.Conflict, "box %s is %s, and a box keeps its kind of isolation", box.Name, box.Isolation).
		WithHint("make another box: agentbox pull %s keeps its work, then agentbox rm %s and agentbox up --isolation %s", box.Name, box.Name, flag)
}
