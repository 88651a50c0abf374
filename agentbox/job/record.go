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

// Record is job.json, which is written before the job starts and never changes.
type Record struct {
	Version int `json:"version"`
	agentbox.JobStart
}

// End is exit.json, which is written once the job's last output is recorded. Status is 0 to 255.
// With Lost neither Status nor Signal means anything.
type End struct {
	Status  int       `json:"status"`
	Signal  string    `json:"signal,omitempty"`
	Lost    bool      `json:"lost,omitempty"` // its machine ended under it: there is no status
	Time    time.Time `json:"time"`
	Omitted uint64    `json:"left_out,omitempty"` // bytes of output that the transcript lacks
}

// EndFile appears in a job's directory when the job has ended. It is exported because some wait for
// it to appear.
const EndFile = "exit.json"

const (
	version      = 1
	recordFile   = "job.json"
	positionFile = "position.json"
)

// Dir is the directory of one job below the directory of a box's jobs.
func Dir(jobs string, id agentbox.JobID) string { return filepath.Join(jobs, id.String()) }

// writeJSON replaces a file as a whole. After a power loss the file may be empty; then the job
// cannot be read, and its machine is gone, too.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return durable.Replace(path, b, 0o600)
}

// readRecord reads what was started. The error is fs.ErrNotExist if there is no such job.
func readRecord(dir string) (rec Record, err error) {
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err == nil {
		err = json.Unmarshal(b, &rec)
	}
	return rec, err
}

// readEnd reads how a job ended; nil if it has not. An empty file is what a power loss may leave of one
// that was being written.
func readEnd(dir string) (end *End, err error) {
	path := filepath.Join(dir, EndFile)
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return nil, nil
	}
	err = durable.ReadJSON(path, &end)
	return end, err
}

// Read is one job as its files have it. jobs is the directory of the box's jobs. The state of a job
// that has not ended follows from its box: where the box is gone or stopped, the job is lost. The
// error is fs.ErrNotExist if there is no such job. Read takes no lock, and may be called at any
// time by any process.
func Read(jobs string, id agentbox.JobID, box agentbox.Box) (agentbox.Job, error) {
	dir := Dir(jobs, id)
	rec, err := readRecord(dir)
	if err != nil {
		return agentbox.Job{}, err
	}
	j := agentbox.Job{JobStart: rec.JobStart, Box: box.ID, BoxName: box.Name}
	j.ID = id
	end, err := readEnd(dir)
	switch {
	case err != nil:
		return j, err
	case end != nil:
		j.State, j.Ended, j.Omitted = agentbox.JobLost, end.Time, end.Omitted
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

// List returns every job of a box, the oldest first. It leaves out what cannot be read. A directory
// that does not exist has no jobs.
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
