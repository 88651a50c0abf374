package supervisor

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// Exit is why a supervisor ended, left in the box's directory for the daemon, which may be of
// another build.
type Exit struct {
	End    agentbox.End    `json:"end"`
	Reason *agentbox.Error `json:"reason,omitempty"` // the error, where the supervisor failed
	Time   time.Time       `json:"time"`
}

// exitFile is the name of an Exit in the box's directory.
const exitFile = "exit.json"

// writeExit leaves the reason why this supervisor ended. The file is replaced as a whole.
func writeExit(dir string, e Exit) error {
	e.Time = time.Now()
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(dir, exitFile), b, 0o600)
}

// TakeExit reads and removes what the last supervisor of a box left, for a daemon that records it.
// ok is false if there is nothing: the supervisor was killed, or its exit was taken before.
func TakeExit(dir string) (Exit, bool, error) {
	e, ok, err := ReadExit(dir)
	if rm := os.Remove(filepath.Join(dir, exitFile)); !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return e, ok, err
}

// ReadExit reads what the last supervisor of a box left. ok is false if there is nothing, as after
// a supervisor was killed, or if the file makes no sense.
func ReadExit(dir string) (Exit, bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, exitFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Exit{}, false, nil
	}
	if err != nil {
		return Exit{}, false, err
	}
	var e Exit
	if err := json.Unmarshal(b, &e); err != nil || e.End.Cause == "" {
		return Exit{}, false, err
	}
	return e, true, nil
}
