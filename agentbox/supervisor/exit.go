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

// Exit is why a supervisor ended, left in the box's directory for the daemon.
type Exit struct {
	Reason *agentbox.Error `json:"reason"`
	Time   time.Time       `json:"time"`
}

// The reasons that were asked for.
const (
	Paused  = "paused"
	Stopped = "stopped"
)

const exitFile = "exit.json"

func writeExit(dir string, reason *agentbox.Error) error {
	b, err := json.Marshal(Exit{Reason: reason, Time: time.Now()})
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(dir, exitFile), b, 0o600)
}

// TakeExit reads and removes what the last supervisor of a box left. A supervisor that was killed left nothing.
func TakeExit(dir string) (Exit, bool, error) {
	path := filepath.Join(dir, exitFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Exit{}, false, nil
	}
	if err != nil {
		return Exit{}, false, err
	}
	var e Exit
	if err := json.Unmarshal(b, &e); err != nil || e.Reason == nil {
		return Exit{}, false, errors.Join(err, os.Remove(path))
	}
	return e, true, os.Remove(path)
}
