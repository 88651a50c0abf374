package supervisor

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// Exit is why a supervisor ended, left in the box's directory for the daemon. It is read by other
// builds: EndOf reads what the oldest of them wrote.
type Exit struct {
	End    agentbox.End    `json:"end"`
	Reason *agentbox.Error `json:"reason,omitempty"` // why it failed, of an End that is EndFailed
	Time   time.Time       `json:"time"`
}

// exitFile is in the box's directory, where the next supervisor's daemon looks for it.
const exitFile = "exit.json"

// writeExit leaves why this supervisor ended. It is replaced as a whole.
func writeExit(dir string, e Exit) error {
	e.Time = time.Now()
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(dir, exitFile), b, 0o600)
}

// TakeExit reads and removes what the last supervisor of a box left, for a daemon that writes it
// down. false: it left nothing, so it was killed, or it was read before.
func TakeExit(dir string) (Exit, bool, error) {
	e, ok, err := ReadExit(dir)
	if rm := os.Remove(filepath.Join(dir, exitFile)); !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return e, ok, err
}

// ReadExit reads what the last supervisor of a box left. A supervisor that was killed left nothing.
// false: there is none, or it makes no sense.
func ReadExit(dir string) (Exit, bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, exitFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Exit{}, false, nil
	}
	if err != nil {
		return Exit{}, false, err
	}
	var e Exit
	if err := json.Unmarshal(b, &e); err != nil || e.End.Cause == "" && e.Reason == nil {
		return Exit{}, false, err
	}
	if e.End.Cause == "" { // a supervisor of an earlier version wrote it
		e.End = EndOf(e.Reason.Message)
	}
	return e, true, nil
}

// EndOf reads the one line that supervisors and daemons of earlier versions wrote of an end. Text
// that it does not know becomes EndOther with that text.
func EndOf(text string) agentbox.End {
	text, _, _ = strings.Cut(text, "; the workspace is intact")
	switch agentbox.Cause(text) {
	case agentbox.EndPaused, agentbox.EndStopped:
		return agentbox.End{Cause: agentbox.Cause(text)}
	}
	if which, ok := strings.CutPrefix(text, "it reached its limit: "); ok {
		which, _, _ = strings.Cut(which, ",")
		if l, err := agentbox.ParseLimit(which); err == nil {
			return agentbox.End{Cause: agentbox.EndLimit, Limit: l}
		}
	}
	if rest, ok := strings.CutPrefix(text, "its lease ended"); ok {
		why, _ := strings.CutPrefix(rest, ", and it could not be paused: ")
		term, _ := time.ParseDuration(strings.TrimPrefix(rest, ": nobody had worked in it for "))
		if why == rest {
			why = ""
		}
		return agentbox.End{Cause: agentbox.EndLease, Term: term, Detail: why}
	}
	return agentbox.End{Cause: agentbox.EndOther, Detail: text}
}
