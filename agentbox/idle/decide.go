package idle

import (
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// What counts as busy: more than a third of the CPUs, or work that waits for one in a tenth of the
// time.
const (
	busyLoad     = 0.34
	busyPressure = 10.0
)

// Decide returns the reasons against taking one more task, none if this machine takes it.
func Decide(p api.IdlePolicy, f api.IdleFacts) []api.IdleReason {
	against := []api.IdleReason{}
	if f.Running >= max(p.Tasks, 1) {
		against = append(against, api.IdleFull)
	}
	if f.Running == 0 && !p.Always { // later, the load is that of the tasks
		if f.Load != nil && *f.Load > busyLoad {
			against = append(against, api.IdleLoad)
		}
		if f.Pressure != nil && *f.Pressure > busyPressure {
			against = append(against, api.IdlePressure)
		}
	}
	return append(against, Ends(p, f)...)
}

// Ends returns the reasons for which this machine gives back what it runs for others.
func Ends(p api.IdlePolicy, f api.IdleFacts) (against []api.IdleReason) {
	if !p.Allowed {
		against = append(against, api.IdleDenied)
	}
	if !within(p.From, p.To, f.Now) {
		against = append(against, api.IdleHours)
	}
	if f.Sleeping {
		against = append(against, api.IdleSleep)
	}
	if f.Battery != nil && *f.Battery && !p.Battery {
		against = append(against, api.IdleBattery)
	}
	if f.Input != nil && !f.Input.IsZero() && !p.Always {
		against = append(against, api.IdleInput)
	}
	return against
}

// Busy returns the reasons against work of this machine's own user that can wait, and may fetch much.
func Busy(p api.IdlePolicy, f api.IdleFacts) []api.IdleReason {
	against := Decide(p, f)
	if f.Metered != nil && *f.Metered {
		against = append(against, api.IdleMetered)
	}
	return against
}

// within tells whether a time of day is in [from, to), which may span midnight. Equal bounds are the
// whole day.
func within(from, to string, now time.Time) bool {
	if from == "" || from == to {
		return true
	}
	at := now.Format(clock)
	if from < to {
		return from <= at && at < to
	}
	return from <= at || at < to
}

const clock = "15:04"

// Check returns an error if a policy makes no sense.
func Check(p api.IdlePolicy) error {
	if (p.From == "") != (p.To == "") {
		return agentbox.Errorf(agentbox.Invalid, "--hours needs both ends").WithHint("for example --hours 19:00-07:00")
	}
	for _, text := range []string{p.From, p.To} {
		if at, err := time.Parse(clock, text); text != "" && (err != nil || at.Format(clock) != text) {
			return agentbox.Errorf(agentbox.Invalid, "--hours: %q is not a time of day", text).WithHint("for example --hours 19:00-07:00")
		}
	}
	for _, label := range p.Labels {
		if label == "" || len(label) > 32 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			return agentbox.Errorf(agentbox.Invalid, "--label: %q is no label: small letters, digits, -, _ and ., 32 at most", label)
		}
	}
	if len(p.Labels) > 8 {
		return agentbox.Errorf(agentbox.Invalid, "--label: a machine has at most 8")
	}
	if p.Tasks < 0 || p.Tasks > 1000 {
		return agentbox.Errorf(agentbox.Invalid, "--tasks %d is out of range: 1 to 1000", p.Tasks)
	}
	return nil
}
