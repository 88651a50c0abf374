package job

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// Record is job.json, which is written before the job starts and never changes. Command, Dir and
// User are as they were asked for, or as a guest says of a job that a fork brought along; Started
// is this host's time.
type Record struct {
	Version int            `json:"version"`
	ID      agentbox.JobID `json:"id"`
	Command []string       `json:"command"`
	Dir     string         `json:"dir,omitempty"`
	User    string         `json:"user,omitempty"`
	TTY     bool           `json:"tty,omitempty"`
	Started time.Time      `json:"started"`
}

// End is exit.json, which is written once the job's last output is recorded. Status is 0 to 255.
// With Lost neither Status nor Signal means anything.
type End struct {
	Status  int       `json:"status"`
	Signal  string    `json:"signal,omitempty"`
	Lost    bool      `json:"lost,omitempty"` // its machine ended under it: there is no status
	Time    time.Time `json:"time"`
	LeftOut uint64    `json:"left_out,omitempty"` // bytes of output that the transcript lacks
}

// EndFile appears in a job's directory when it has ended. Its name is known outside because some
// wait for it to appear.
const EndFile = "exit.json"

const (
	version      = 1
	recordFile   = "job.json"
	positionFile = "position.json"
)

// Dir is the directory of one job below the directory of a box's jobs.
func Dir(jobs string, id agentbox.JobID) string { return filepath.Join(jobs, id.String()) }

// writeJSON replaces a file so that readers see all of it; after a power loss it may be empty,
// which is a job that nobody can read, and its machine is gone, too.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return durable.Replace(path, b, 0o600)
}

// readRecord is what was started; fs.ErrNotExist for a job that is not there.
func readRecord(dir string) (rec Record, err error) {
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err == nil {
		err = json.Unmarshal(b, &rec)
	}
	return rec, err
}

// readEnd is how a job ended, nil for one that has not.
func readEnd(dir string) (end *End, err error) {
	err = durable.ReadJSON(filepath.Join(dir, EndFile), &end)
	return end, err
}

// Read is one job as its files have it. A job that has not ended is in the state of its box. jobs
// is the directory of the box's jobs. A job that is not there is fs.ErrNotExist. Where box is gone
// or stopped, what had not ended is lost. It takes no lock, and may be called at any time by any
// process.
func Read(jobs string, id agentbox.JobID, box agentbox.Box) (agentbox.Job, error) {
	dir := Dir(jobs, id)
	rec, err := readRecord(dir)
	if err != nil {
		return agentbox.Job{}, err
	}
	j := agentbox.Job{
		ID: id, Box: box.ID, BoxName: box.Name, Command: rec.Command, Dir: rec.Dir, User: rec.User, TTY: rec.TTY, Started: rec.Started,
	}
	end, err := readEnd(dir)
	switch {
	case err != nil:
		return j, err
	case end != nil:
		j.State, j.Ended, j.LeftOut = agentbox.JobLost, end.Time, end.LeftOut
		if !end.Lost {
			j.State, j.Exit, j.Signal = agentbox.JobEnded, &end.Status, end.Signal
		}
	case box.State == agentbox.Running || box.State == agentbox.Waiting:
		j.State = agentbox.JobRunning
	case box.State == agentbox.Paused || box.State == agentbox.Creating:
		j.State = agentbox.JobPaused
	default:
		j.State = agentbox.JobLost
	}
	return j, nil
}

// List is every job of a box, the oldest first. What cannot be read is left out. A directory that
// does not exist has none.
func List(jobs string, box agentbox.Box) []agentbox.Job {
	var all []agentbox.Job
	for _, id := range ids(jobs) {
		if j, err := Read(jobs, id, box); err == nil {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(x, y agentbox.Job) int { return x.Started.Compare(y.Started) })
	return all
}

// ids are the jobs that have a directory.
func ids(jobs string) []agentbox.JobID {
	entries, err := os.ReadDir(jobs)
	if err != nil {
		return nil // no job was ever started
	}
	var all []agentbox.JobID
	for _, e := range entries {
		if id, err := agentbox.ParseJobID(e.Name()); err == nil {
			all = append(all, id)
		}
	}
	return all
}
