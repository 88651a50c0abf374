package supervisor

import (
	"bytes"
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

// exitRoom is the size of a file that has room for an Exit, in bytes.
const exitRoom = 4096

// ReserveExit makes room for the Exit of a supervisor that is about to start, in place of what an
// earlier one left: a full disk is what it may have to tell. Blanks mean that there is none.
func ReserveExit(dir string) error {
	return durable.Replace(filepath.Join(dir, exitFile), bytes.Repeat([]byte("\n"), exitRoom), 0o600)
}

// writeExit leaves the reason why this supervisor ended, in the room that was reserved for it.
func writeExit(dir string, e Exit) error {
	e.Time = time.Now()
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, exitFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	b = append(b, bytes.Repeat([]byte("\n"), max(0, exitRoom-len(b)))...)
	_, err = f.Write(b)
	return errors.Join(err, f.Truncate(int64(len(b))), f.Close())
}

// TakeExit reads and removes what the last supervisor of a box left, for a daemon that records it.
// ok is false if there is nothing: the supervisor was killed, or its exit was taken before.
func TakeExit(dir string) (Exit, bool, error) {
	e, ok, err := readExit(dir)
	if rm := os.Remove(filepath.Join(dir, exitFile)); !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return e, ok, err
}

// readExit reads what the last supervisor of a box left. ok is false if there is nothing, as after
// a supervisor was killed, or if the file makes no sense.
func readExit(dir string) (Exit, bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, exitFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Exit{}, false, nil
	}
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return Exit{}, false, err
	}
	var e Exit
	if err := json.Unmarshal(b, &e); err != nil || e.End.Cause == "" {
		return Exit{}, false, err
	}
	return e, true, nil
}
