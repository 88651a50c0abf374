package e2b

import (
	"encoding/json"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"agentbox/agentbox"
)

// Messages of process.Process. A nil pointer is an absent field, and one of several that exclude each
// other is set.
type (
	startRequest struct {
		Process processConfig `json:"process"`
		PTY     *pty          `json:"pty,omitempty"`
		Stdin   *bool         `json:"stdin,omitempty"` // absent in SDKs for which it was always there
	}
	processConfig struct {
		Cmd  string            `json:"cmd"`
		Args []string          `json:"args,omitempty"`
		Envs map[string]string `json:"envs,omitempty"`
		Cwd  string            `json:"cwd,omitempty"`
	}
	pty struct {
		Size ptySize `json:"size"`
	}
	ptySize struct {
		Cols int `json:"cols"`
		Rows int `json:"rows"`
	}
	// processRequest is the request of all calls about a process that was started.
	processRequest struct {
		Process selector `json:"process"`
		PTY     *pty     `json:"pty,omitempty"`
		Input   input    `json:"input"`
		Signal  signal   `json:"signal,omitempty"`
	}
	selector struct {
		PID uint32 `json:"pid,omitempty"`
		Tag string `json:"tag,omitempty"`
	}
	input struct {
		Stdin []byte `json:"stdin,omitempty"`
		PTY   []byte `json:"pty,omitempty"`
	}
	processResponse struct {
		Event processEvent `json:"event"`
	}
	processEvent struct {
		Start     *startEvent `json:"start,omitempty"`
		Data      *dataEvent  `json:"data,omitempty"`
		End       *endEvent   `json:"end,omitempty"`
		KeepAlive *empty      `json:"keepalive,omitempty"`
	}
	startEvent struct {
		PID uint32 `json:"pid"`
	}
	dataEvent struct {
		Stdout []byte `json:"stdout,omitempty"`
		Stderr []byte `json:"stderr,omitempty"`
		PTY    []byte `json:"pty,omitempty"`
	}
	endEvent struct {
		ExitCode int    `json:"exitCode"`
		Exited   bool   `json:"exited"`
		Status   string `json:"status"`
		Error    string `json:"error,omitempty"`
	}
	processInfo struct {
		Config processConfig `json:"config"`
		PID    uint32        `json:"pid"`
	}
	listResponse struct {
		Processes []processInfo `json:"processes"`
	}
	empty struct{}
)

// Messages of filesystem.Filesystem.
type (
	pathRequest struct {
		Path      string `json:"path"`
		Depth     int    `json:"depth,omitempty"`
		Recursive bool   `json:"recursive,omitempty"`
	}
	moveRequest struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}
	entryResponse struct {
		Entry *entryInfo `json:"entry,omitempty"`
	}
	entriesResponse struct {
		Entries []entryInfo `json:"entries"`
	}
	entryInfo struct {
		Name          string    `json:"name"`
		Type          string    `json:"type"`
		Path          string    `json:"path"`
		Size          int64     `json:"size,string"`
		Mode          uint32    `json:"mode"`
		Permissions   string    `json:"permissions"`
		Owner         string    `json:"owner"`
		Group         string    `json:"group"`
		ModifiedTime  time.Time `json:"modifiedTime"`
		SymlinkTarget string    `json:"symlinkTarget,omitempty"`
	}
	watchResponse struct {
		Start      *empty     `json:"start,omitempty"`
		Filesystem *fileEvent `json:"filesystem,omitempty"`
		KeepAlive  *empty     `json:"keepalive,omitempty"`
	}
	fileEvent struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
)

// signal is SIGNAL_SIGTERM or SIGNAL_SIGKILL; its value is the signal's name here. JSON has an enum's
// name or its number.
type signal string

// UnmarshalJSON implements json.Unmarshaler.
func (s *signal) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"SIGNAL_SIGTERM"`, "15":
		*s = "TERM"
	case `"SIGNAL_SIGKILL"`, "9":
		*s = "KILL"
	default:
		return agentbox.Errorf(agentbox.Invalid, "%.40q is no signal that a process can be sent", b)
	}
	return nil
}

// codec is JSON for Connect, under one of the names that JSON has there.
type codec string

// Name implements connect.Codec.
func (c codec) Name() string { return string(c) }

// Marshal implements connect.Codec.
func (codec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal implements connect.Codec. An empty message is one without fields.
func (codec) Unmarshal(b []byte, v any) error {
	if len(b) == 0 {
		return nil
	}
	return json.Unmarshal(b, v)
}

// maxMessage bounds what is read of one message. Files do not come this way.
const maxMessage = 8 << 20

// options are those of every call.
var options = []connect.HandlerOption{
	connect.WithCodec(codec("json")), connect.WithCodec(codec("json; charset=utf-8")), connect.WithReadMaxBytes(maxMessage),
}

// asConnect gives an error the code that the SDKs make an exception of.
func asConnect(err error) error {
	if err == nil {
		return nil
	}
	e := agentbox.AsError(err)
	text := e.Message
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	code, ok := connectCodes[e.Code]
	if !ok {
		code = connect.CodeInternal
	}
	return connect.NewError(code, plainError(text))
}

type plainError string

func (p plainError) Error() string { return string(p) }

var connectCodes = map[agentbox.Code]connect.Code{
	agentbox.NotFound: connect.CodeNotFound, agentbox.Invalid: connect.CodeInvalidArgument, agentbox.Unauthorized: connect.CodeUnauthenticated,
	agentbox.Forbidden: connect.CodePermissionDenied, agentbox.Exists: connect.CodeAlreadyExists, agentbox.Busy: connect.CodeResourceExhausted,
	agentbox.Conflict: connect.CodeFailedPrecondition, agentbox.Unavailable: connect.CodeUnavailable,
}

// fail answers a REST request with an error.
func fail(w http.ResponseWriter, status int, err error) {
	e := agentbox.AsError(err)
	text := e.Message
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	answer(w, status, map[string]any{"code": status, "message": text})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
