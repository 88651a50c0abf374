package agentbox

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Cause is why a machine ended. Causes are facts that code branches on; the command line alone has
// the words for them (cli/sentences.go).
type Cause string

// The causes of an end.
const (
	EndPaused  Cause = "paused"  // somebody asked for it
	EndStopped Cause = "stopped" // somebody asked for it
	EndLimit   Cause = "limit"   // End.Limit was reached
	// EndLease: nobody had worked in the box for End.Term. End.Detail is why it could not be
	// paused, where it was stopped instead.
	EndLease   Cause = "lease"
	EndExit    Cause = "exit"    // it shut down by itself
	EndDied    Cause = "died"    // End.Detail is how
	EndKilled  Cause = "killed"  // its supervisor was killed
	EndResumed Cause = "resumed" // it was lost while it was resumed
	EndFailed  Cause = "failed"  // it never started; End.Detail is why
)

// End is why a machine ended. The zero End is that of a machine that has not. The supervisor leaves
// it beside the box's record as it exits; a daemon takes it from there, perhaps much later. Which
// of Limit, Term and Detail are set follows from Cause.
type End struct {
	Cause  Cause         `json:"cause"`
	Limit  Limit         `json:"limit,omitzero"`
	Term   time.Duration `json:"term,omitempty"` // nanoseconds
	Detail string        `json:"detail,omitempty"`
}

// Asked tells whether somebody asked for it. Such an end is no news: it is neither shown nor kept
// in the record.
func (e End) Asked() bool { return e.Cause == EndPaused || e.Cause == EndStopped }

// LogValue implements slog.LogValuer: a log has the facts that are set, and no sentence.
func (e End) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("cause", string(e.Cause))}
	if !e.Limit.IsZero() {
		attrs = append(attrs, slog.Any("limit", e.Limit))
	}
	if e.Term != 0 {
		attrs = append(attrs, slog.Duration("term", e.Term))
	}
	if e.Detail != "" {
		attrs = append(attrs, slog.String("detail", e.Detail))
	}
	return slog.GroupValue(attrs...)
}

// LimitKind is what a limit is about.
type LimitKind string

// The limits that a box can have.
const (
	LimitWall        LimitKind = "wall"        // time since its machine became a box
	LimitIdle        LimitKind = "idle"        // time without a sign of life
	LimitCPU         LimitKind = "cpu"         // time of the processors
	LimitDisk        LimitKind = "disk"        // bytes of the workspace
	LimitBytes       LimitKind = "bytes"       // bytes in and out
	LimitConnections LimitKind = "connections" // that are open at once
	LimitTokens      LimitKind = "tokens"      // that models have counted
	LimitCost        LimitKind = "cost"        // what those cost
)

// Limit is a limit of a box. The zero Limit is none. As text, in JSON too, it is the kind and the
// bound: "wall 10s", "disk 256 MiB". It has to stay comparable: IsZero and others use ==.
type Limit struct {
	Kind     LimitKind
	Time     time.Duration // of wall, idle and cpu
	Count    int64         // of the others: bytes, connections, tokens
	Cost     float64       // of cost, in Currency
	Currency string
}

// IsZero tells whether it is none.
func (l Limit) IsZero() bool { return l == Limit{} }

// String is the form that ParseLimit reads. A disk's bound is in whole MiB, rounded down.
func (l Limit) String() string {
	switch l.Kind {
	case "":
		return ""
	case LimitWall, LimitIdle, LimitCPU:
		return string(l.Kind) + " " + l.Time.String()
	case LimitDisk:
		return fmt.Sprintf("%s %d MiB", l.Kind, l.Count>>20)
	case LimitCost:
		return fmt.Sprintf("%s %v %s", l.Kind, l.Cost, l.Currency)
	}
	return fmt.Sprintf("%s %d", l.Kind, l.Count)
}

// ParseLimit reads what String wrote, and "" as no limit. Anything else is Invalid: the text may
// come from a client.
func ParseLimit(text string) (l Limit, err error) {
	kind, bound, _ := strings.Cut(text, " ")
	l.Kind = LimitKind(kind)
	switch l.Kind {
	case "":
		return Limit{}, nil
	case LimitWall, LimitIdle, LimitCPU:
		l.Time, err = time.ParseDuration(bound)
	case LimitDisk:
		l.Count, err = strconv.ParseInt(strings.TrimSuffix(bound, " MiB"), 10, 32)
		l.Count <<= 20
	case LimitCost:
		var cost string
		cost, l.Currency, _ = strings.Cut(bound, " ")
		l.Cost, err = strconv.ParseFloat(cost, 64)
	case LimitBytes, LimitConnections, LimitTokens:
		l.Count, err = strconv.ParseInt(bound, 10, 64)
	default:
		err = fmt.Errorf("there is no such limit")
	}
	if err != nil {
		return Limit{}, Errorf(Invalid, "%.80q is not a limit: %w", text, err)
	}
	return l, nil
}

// MarshalText implements encoding.TextMarshaler.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Limit) UnmarshalText(b []byte) (err error) {
	*l, err = ParseLimit(string(b))
	return err
}

// ProblemKind is what is wrong with a box. As with causes, code branches on these, and the command
// line has the words.
type ProblemKind string

// The problems that a box can have.
const (
	// ProblemImage: the box stands still since Since, until From gives bytes of its image; Detail
	// is why From does not.
	ProblemImage ProblemKind = "image"
	// ProblemDirectory: the checkout that it was made from is gone; Detail is its path.
	ProblemDirectory ProblemKind = "directory"
	// ProblemUnlogged: its audit log could not be written, so it has no network.
	ProblemUnlogged ProblemKind = "unlogged"
	// ProblemUnpaused: its lease has ended, and it cannot be paused; Detail is why.
	ProblemUnpaused ProblemKind = "unpaused"
	// ProblemNoCard: this machine gives it no network card, so it has no network.
	ProblemNoCard    ProblemKind = "no_card"
	ProblemMemory    ProblemKind = "memory"    // its kernel killed processes for want of memory
	ProblemProcesses ProblemKind = "processes" // a fork bomb was ended
	// ProblemStart: the configuration's start commands failed; Detail is how.
	ProblemStart ProblemKind = "start"
)

// Problem is something that a user of a box should know. An empty field has no meaning for its
// Kind.
type Problem struct {
	Kind   ProblemKind `json:"kind"`
	From   string      `json:"from,omitempty"`
	Since  time.Time   `json:"since,omitzero"`
	Detail string      `json:"detail,omitempty"`
}

// Limited is the limit at which the last machine of a box ended, the zero Limit for none.
func (b Box) Limited() Limit {
	if b.Ended == nil {
		return Limit{}
	}
	return b.Ended.Limit
}
