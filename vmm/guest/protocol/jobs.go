package protocol

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// JobChannel is the SSH channel type by which the host starts a job or attaches to one. Its extra
// data is a JobOpen as JSON; the reason of a refusal is a JobRefusal as JSON.
//
// The host sends the frames JobInput and JobInputEnd, and the requests window-change and signal of
// RFC 4254, JobFlowControl and JobForget. The guest sends a JobOffset, then output, with a
// JobOffset wherever output is missing, and JobEnd last. A job has one channel: a second one closes
// the first.
const JobChannel = "job@agentbox"

// Requests on a JobChannel.
const (
	// JobFlowControl has one SSH boolean as its payload: true makes the job wait for its reader, so
	// that no output is lost.
	JobFlowControl = "patience@agentbox"
	JobForget      = "forget@agentbox" // of a job that has ended: the host has recorded its end
)

// Jobs is the global request {} -> []JobStatus: the jobs that the guest has not been told to
// forget.
const Jobs = "jobs@agentbox"

// JobOpen says which job a channel is for.
type JobOpen struct {
	// Chosen by the host: `j-` and 8 hex digits. The guest only compares it.
	ID    string   `json:"id"`
	Start *JobSpec `json:"start,omitempty"` // nil: the job is there
	From  uint64   `json:"from"`            // how many bytes of its output the host has
}

// JobSpec is what a job runs.
type JobSpec struct {
	Argv []string          `json:"argv"`
	Dir  string            `json:"dir,omitempty"` // as ArgvRequest's
	Env  map[string]string `json:"env,omitempty"`
	User string            `json:"user,omitempty"`
	TTY  bool              `json:"tty,omitempty"` // a terminal for its three files; else output and errors are pipes
	// TERM and the size in characters, for a job with a terminal.
	Term    string `json:"term,omitempty"`
	Columns int    `json:"columns,omitempty"`
	Rows    int    `json:"rows,omitempty"`
	Input   bool   `json:"input,omitempty"` // clients send input; else it reads /dev/null. A terminal always has input
}

// JobRefusal is why a job could not be started or is not there.
type JobRefusal struct {
	Status int    `json:"status"` // 127: no such program, 126: it could not be run, 0: there is no such job
	Error  string `json:"error"`
	Early  bool   `json:"early,omitempty"` // not a failure: the first start is still running; ask again
}

// JobStatus is a job as the guest knows it.
type JobStatus struct {
	ID   string   `json:"id"`
	Argv []string `json:"argv"`
	Dir  string   `json:"dir,omitempty"`
	User string   `json:"user,omitempty"`
	TTY  bool     `json:"tty,omitempty"`
	End  uint64   `json:"end"` // bytes of output so far
	// It has ended, and the host has not been told.
	Ended bool `json:"ended,omitempty"`
}

// JobExit is how a job ended.
type JobExit struct {
	Status int    `json:"status"`           // as a shell has it: 128 and the signal's number for a job that a signal ended
	Signal string `json:"signal,omitempty"` // as RFC 4254 names it
}

// Kinds of JobFrames.
const (
	JobOffset = 'a' // 8 bytes, big-endian: which byte of the output comes next
	JobOutput = 'o'
	JobStderr = 'e' // of a job without a terminal
	JobEnd    = 'x' // a JobExit as JSON, the last frame

	JobInput    = 'i'
	JobInputEnd = 'z' // the last of the input has come
)

// JobFrame is one message on a job's channel: one byte of kind, four bytes of length, big-endian,
// and the data.
type JobFrame struct {
	Kind byte
	Data []byte
}

// MaxJobFrame bounds the data of a frame.
const MaxJobFrame = 32 << 10

// jobHeader is the length of kind and length.
const jobHeader = 5

// AppendJobFrame appends a frame in its wire format. data is at most MaxJobFrame long.
func AppendJobFrame(b []byte, kind byte, data []byte) []byte {
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// AppendJobOffset appends a JobOffset.
func AppendJobOffset(b []byte, at uint64) []byte {
	return AppendJobFrame(b, JobOffset, binary.BigEndian.AppendUint64(nil, at))
}

// ReadJobFrame reads one frame into buf, which must hold MaxJobFrame bytes. The frame's data is a
// part of buf, valid until the next call. A malformed frame is an error. io.EOF before the first
// byte means that the other side is done; inside of a frame the error is io.ErrUnexpectedEOF.
func ReadJobFrame(r io.Reader, buf []byte) (JobFrame, error) {
	var header [jobHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return JobFrame{}, err
	}
	size := binary.BigEndian.Uint32(header[1:])
	if size > MaxJobFrame || int(size) > len(buf) {
		return JobFrame{}, fmt.Errorf("a frame of %d bytes is longer than %d", size, MaxJobFrame)
	}
	f := JobFrame{Kind: header[0], Data: buf[:size]}
	if _, err := io.ReadFull(r, f.Data); err != nil {
		return JobFrame{}, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return f, f.check()
}

func (j JobFrame) check() error {
	switch j.Kind {
	case JobOutput, JobStderr, JobInput, JobInputEnd:
		return nil
	case JobOffset:
		if len(j.Data) != 8 {
			return fmt.Errorf("a position of %d bytes", len(j.Data))
		}
		return nil
	case JobEnd:
		_, err := j.Exit()
		return err
	}
	return fmt.Errorf("a frame of the unknown kind %q", j.Kind)
}

// Offset is the position in a JobOffset.
func (j JobFrame) Offset() uint64 { return binary.BigEndian.Uint64(j.Data) }

// Exit is how the job ended, from a JobEnd.
func (j JobFrame) Exit() (JobExit, error) {
	var e JobExit
	if err := json.Unmarshal(j.Data, &e); err != nil {
		return e, fmt.Errorf("the end of a job: %w", err)
	}
	if e.Status < 0 || e.Status > 255 || len(e.Signal) > 16 {
		return e, fmt.Errorf("the end of a job: status %d, signal %q", e.Status, e.Signal)
	}
	return e, nil
}
