package agentbox

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Cause is why a machine ended. Causes are facts that code branches on. Only the command line turns
// them into words (cli/sentences.go).
type Cause string

// The causes of an end.
const (
	EndPaused  Cause = "paused"  // on request
	EndStopped Cause = "stopped" // on request
	EndLimit   Cause = "limit"   // End.Limit was reached
	// EndLease: nobody had worked in the box for End.Term. If the box was stopped because it could
	// not be paused, End.Detail is the reason.
	EndLease   Cause = "lease"
	EndExit    Cause = "exit"    // it shut down by itself
	EndDied    Cause = "died"    // End.Detail says how
	EndKilled  Cause = "killed"  // its supervisor was killed
	EndResumed Cause = "resumed" // it was lost during a resume
	EndFailed  Cause = "failed"  // it never started; End.Detail is why
)

// End is why a machine ended. The zero End belongs to a machine that has not ended. The supervisor
// writes it beside the box's record as it exits; a daemon reads it from there, perhaps much later.
// Cause determines which of Limit, Term and Detail are set.
type End struct {
	Cause  Cause         `json:"cause"`
	Limit  Limit         `json:"limit,omitzero"`
	Term   time.Duration `json:"term,omitempty"` // nanoseconds
	Detail string        `json:"detail,omitempty"`
}

// Requested reports whether somebody asked for this end. Such an end is not news: it is neither
// shown nor kept in the record.
func (e End) Requested() bool { return e.Cause == EndPaused || e.Cause == EndStopped }

// LogValue implements slog.LogValuer. A log contains the fields that are set, not a sentence.
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

// LimitKind is what a limit bounds.
type LimitKind string

// The limits that a box can have.
const (
	LimitWall        LimitKind = "wall"        // time since its machine became a box
	LimitIdle        LimitKind = "idle"        // time without activity
	LimitCPU         LimitKind = "cpu"         // processor time
	LimitDisk        LimitKind = "disk"        // bytes in the workspace
	LimitBytes       LimitKind = "bytes"       // bytes in and out
	LimitConnections LimitKind = "connections" // connections open at once
	LimitTokens      LimitKind = "tokens"      // tokens that models reported
	LimitCost        LimitKind = "cost"        // the price of those tokens
)

// Limit is a limit of a box. The zero Limit means none. Its text form, also in JSON, is the kind
// and the bound: "wall 10s", "disk 256 MiB". It must stay comparable: IsZero and others use ==.
type Limit struct {
	Kind     LimitKind
	Time     time.Duration // for wall, idle and cpu
	Count    int64         // for the others: bytes, connections, tokens
	Cost     float64       // for cost, in Currency
	Currency string
}

// IsZero reports whether there is no limit.
func (l Limit) IsZero() bool { return l == Limit{} }

// String returns the form that ParseLimit parses. A disk limit is in whole MiB, rounded down.
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

// ParseLimit parses the output of String; "" means no limit. Anything else is Invalid, because the
// text may come from a client.
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

// ProblemKind is what is wrong with a box. As with Cause, code branches on these, and the command
// line has the words.
type ProblemKind string

// The problems that a box can have.
const (
	// ProblemImage: the box has stalled since Since and waits until From delivers bytes of its
	// image. Detail is why From does not.
	ProblemImage ProblemKind = "image"
	// ProblemDirectory: the checkout that the box was made from is gone. Detail is its path.
	ProblemDirectory ProblemKind = "directory"
	// ProblemAuditLog: the box's audit log could not be written, so the box has no network.
	ProblemAuditLog ProblemKind = "audit_log"
	// ProblemPauseFailed: the lease has expired but the box cannot be paused. Detail is why.
	ProblemPauseFailed ProblemKind = "pause_failed"
	// ProblemNoNetworkCard: this host cannot give the machine a network card, so the box has no
	// network.
	ProblemNoNetworkCard ProblemKind = "no_network_card"
	ProblemMemory        ProblemKind = "memory"    // its kernel killed processes because memory ran out
	ProblemProcesses     ProblemKind = "processes" // a fork bomb was ended
	// ProblemStart: the configuration's start commands failed. Detail says how.
	ProblemStart ProblemKind = "start"
	// ProblemPausedFor: it is paused while another machine, From, works on a copy of it.
	ProblemPausedFor ProblemKind = "taken"
	// ProblemMoved: what ran in it runs on another machine, From, now.
	ProblemMoved ProblemKind = "given"
)

// Problem is something that a user of a box should know. Fields that do not apply to Kind are
// empty.
type Problem struct {
	Kind   ProblemKind `json:"kind"`
	From   string      `json:"from,omitempty"`
	Since  time.Time   `json:"since,omitzero"`
	Detail string      `json:"detail,omitempty"`
}

// Limited returns the limit that ended the box's last machine, or the zero Limit if none did.
func (b Box) Limited() Limit {
	if b.Ended == nil {
		return Limit{}
	}
	return b.Ended.Limit
}
