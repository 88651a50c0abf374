package cli

import (
	"fmt"
	"time"

	"agentbox/agentbox"
)

// The daemon, its supervisors and their records hold facts about a box: a cause, a limit, a kind of
// problem. This file turns all of them into sentences, and no code parses one. A sentence is one
// line without a full stop. Its subject is "it", the box or its machine, so that a name can precede
// it.

func endText(e agentbox.End) string {
	switch e.Cause {
	case agentbox.EndLimit:
		if e.Limit.Kind == agentbox.LimitDisk {
			return limitText(e.Limit) + ", which its workspace exceeds"
		}
		return limitText(e.Limit)
	case agentbox.EndLease:
		switch {
		case e.Detail != "":
			return "its lease ended, and it could not be paused: " + e.Detail
		case e.Term != 0:
			return "its lease ended: nobody had worked in it for " + e.Term.String()
		}
		return "its lease ended"
	case agentbox.EndExit:
		return "its machine shut down"
	case agentbox.EndDied:
		return "its machine died: " + e.Detail
	case agentbox.EndKilled:
		return "its supervisor was killed"
	case agentbox.EndResumed:
		return "its machine was lost while it was resumed"
	case agentbox.EndFailed:
		return e.Detail
	}
	return string(e.Cause)
}

func limitText(l agentbox.Limit) string { return "it reached its limit: " + l.String() }

// problemText says what is wrong with a box and, if possible, what to do about it.
func problemText(p agentbox.Problem) string {
	switch p.Kind {
	case agentbox.ProblemImage:
		return fmt.Sprintf("waiting since %s for bytes of its image from %s: %s", p.Since.Local().Format(time.TimeOnly), p.From, p.Detail)
	case agentbox.ProblemDirectory:
		return "its directory " + p.Detail + " is gone"
	case agentbox.ProblemAuditLog:
		return "its audit log could not be written, so it has no network; free some disk space, then run agentbox reset to restore the network"
	case agentbox.ProblemPauseFailed:
		return "its lease has ended, but it cannot be paused; agentbox keeps trying: " + p.Detail
	case agentbox.ProblemNoNetworkCard:
		return "this machine cannot give it a network card, so it has no network; agentbox logs --supervisor says why"
	case agentbox.ProblemMemory:
		return "the kernel of the box killed processes because memory ran out"
	case agentbox.ProblemProcesses:
		return "a fork bomb was ended"
	case agentbox.ProblemStart:
		return p.Detail + "; agentbox reset tries again"
	case agentbox.ProblemMoved:
		return "what ran in it runs on " + p.From + " now; agentbox reset begins afresh with the files that it had here"
	case agentbox.ProblemPausedFor:
		return "paused while " + p.From + " works on it; agentbox resume takes it back"
	}
	return string(p.Kind)
}

func pressureText(p agentbox.Pressure) string {
	switch p.What {
	case agentbox.PressureLimit:
		return "limit reached: " + p.Detail
	case agentbox.PressureMemory:
		return fmt.Sprintf("out of memory: the kernel of the box had killed %s by then", agentbox.Plural(p.Count, "process"))
	case agentbox.PressureProcesses:
		return fmt.Sprintf("too many processes: %s had been ended by then", agentbox.Plural(p.Count, "fork bomb"))
	case agentbox.PressureDisk:
		return "disk almost full: its " + p.Detail
	}
	return p.What + " " + p.Detail
}

// limitError is the error (Unavailable) of a session that ended because its box reached a limit.
func limitError(b agentbox.Box) error {
	return agentbox.Errorf(agentbox.Unavailable, "box %s reached its limit: %s; it is %s", b.Name, b.Limited(), b.State).
		WithHint("agentbox resume %s continues; limits: in the configuration sets the limits", b.Name)
}

// endNote returns endText as a note about a box. It adds that the work is safe, which the end of a
// machine does not tell.
func endNote(e agentbox.End) string { return endText(e) + "; the workspace is intact" }

// notes are for the user of a box, one line each: why its last machine ended, and its problems.
func notes(b agentbox.Box) (lines []string) {
	if b.Ended != nil {
		lines = append(lines, endNote(*b.Ended))
	}
	for _, p := range b.Problems {
		lines = append(lines, problemText(p))
	}
	return lines
}

func noteText(e agentbox.Event) string {
	text := e.Detail
	switch {
	case e.End != nil:
		text = endNote(*e.End)
	case e.Problem != nil:
		text = problemText(*e.Problem)
	}
	if e.Box != "" {
		text = "box " + e.Box + ": " + text
	}
	return text
}

// errorText returns the message of an error, with why a machine ended if that is the reason.
func errorText(err error) string {
	e := agentbox.AsError(err)
	return withEnd(e.Message, e.End)
}

// reasonText returns why an attempt of a task ended as it did, or "" if the state says everything.
func reasonText(r agentbox.Result) string { return withEnd(r.Reason, r.End) }

// withEnd returns a text with the end of the machine that explains it, if that is known.
func withEnd(text string, end *agentbox.End) string {
	if end == nil {
		return text
	}
	return text + ": " + endText(*end)
}
