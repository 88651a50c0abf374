package e2b

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"agentbox/agentbox"
)

// Messages of process.Process. A nil pointer is an absent field, and one of several that exclude each
// other is set. The tag proto has a field's number in Protocol Buffers (schema.go).
type (
	startRequest struct {
		Process processConfig `json:"process" proto:"1"`
		PTY     *pty          `json:"pty,omitempty" proto:"2"`
		Stdin   *bool         `json:"stdin,omitempty" proto:"4"` // absent in SDKs for which it was always there
	}
	processConfig struct {
		Cmd  string            `json:"cmd" proto:"1"`
		Args []string          `json:"args,omitempty" proto:"2"`
		Envs map[string]string `json:"envs,omitempty" proto:"3"`
		Cwd  string            `json:"cwd,omitempty" proto:"4"`
	}
	pty struct {
		Size ptySize `json:"size" proto:"1"`
	}
	ptySize struct {
		Cols uint32 `json:"cols" proto:"1"`
		Rows uint32 `json:"rows" proto:"2"`
	}
	// processRequest is what all calls about a process that was started have.
	processRequest struct {
		Process selector `json:"process" proto:"1"`
	}
	resizeRequest struct {
		processRequest
		PTY *pty `json:"pty,omitempty" proto:"2"`
	}
	inputRequest struct {
		processRequest
		Input input `json:"input" proto:"2"`
	}
	signalRequest struct {
		processRequest
		Signal signal `json:"signal,omitempty" proto:"2"`
	}
	selector struct {
		PID uint32 `json:"pid,omitempty" proto:"1"`
	}
	input struct {
		Stdin []byte `json:"stdin,omitempty" proto:"1"`
		PTY   []byte `json:"pty,omitempty" proto:"2"`
	}
	processResponse struct {
		Event processEvent `json:"event" proto:"1"`
	}
	processEvent struct {
		Start     *startEvent `json:"start,omitempty" proto:"1"`
		Data      *dataEvent  `json:"data,omitempty" proto:"2"`
		End       *endEvent   `json:"end,omitempty" proto:"3"`
		KeepAlive *empty      `json:"keepalive,omitempty" proto:"4"`
	}
	startEvent struct {
		PID uint32 `json:"pid" proto:"1"`
	}
	dataEvent struct {
		Stdout []byte `json:"stdout,omitempty" proto:"1"`
		Stderr []byte `json:"stderr,omitempty" proto:"2"`
		PTY    []byte `json:"pty,omitempty" proto:"3"`
	}
	endEvent struct {
		ExitCode int32  `json:"exitCode" proto:"1"`
		Exited   bool   `json:"exited" proto:"2"`
		Status   string `json:"status" proto:"3"`
		Error    string `json:"error,omitempty" proto:"4"`
	}
	processInfo struct {
		Config processConfig `json:"config" proto:"1"`
		PID    uint32        `json:"pid" proto:"2"`
	}
	listResponse struct {
		Processes []processInfo `json:"processes" proto:"1"`
	}
	empty struct{}
)

// Messages of filesystem.Filesystem.
type (
	pathRequest struct {
		Path string `json:"path" proto:"1"`
	}
	dirRequest struct {
		pathRequest
		Depth uint32 `json:"depth,omitempty" proto:"2"`
	}
	watchRequest struct {
		pathRequest
		Recursive    bool `json:"recursive,omitempty" proto:"2"`
		IncludeEntry bool `json:"includeEntry,omitempty" proto:"3"`
	}
	moveRequest struct {
		Source      string `json:"source" proto:"1"`
		Destination string `json:"destination" proto:"2"`
	}
	entryResponse struct {
		Entry *entryInfo `json:"entry,omitempty" proto:"1"`
	}
	entriesResponse struct {
		Entries []entryInfo `json:"entries" proto:"1"`
	}
	entryInfo struct {
		Name          string    `json:"name" proto:"1"`
		Type          fileType  `json:"type" proto:"2"`
		Path          string    `json:"path" proto:"3"`
		Size          int64     `json:"size,string" proto:"4"`
		Mode          uint32    `json:"mode" proto:"5"`
		Permissions   string    `json:"permissions" proto:"6"`
		Owner         string    `json:"owner" proto:"7"`
		Group         string    `json:"group" proto:"8"`
		ModifiedTime  time.Time `json:"modifiedTime" proto:"9"`
		SymlinkTarget string    `json:"symlinkTarget,omitempty" proto:"10"`
	}
	watchResponse struct {
		Start      *empty     `json:"start,omitempty" proto:"1"`
		Filesystem *fileEvent `json:"filesystem,omitempty" proto:"2"`
		KeepAlive  *empty     `json:"keepalive,omitempty" proto:"3"`
	}
	fileEvent struct {
		Name  string     `json:"name" proto:"1"`
		Type  eventType  `json:"type" proto:"2"`
		Entry *entryInfo `json:"entry,omitempty" proto:"3"` // if asked for, and there is one
	}
)

// Enums are their names.
type (
	fileType  string
	eventType string
)

// signal is SIGNAL_SIGTERM or SIGNAL_SIGKILL. JSON has an enum's name or its number.
type signal string

// UnmarshalJSON implements json.Unmarshaler.
func (s *signal) UnmarshalJSON(b []byte) error {
	for name, number := range enums[reflect.TypeFor[signal]()] {
		if text := string(b); text == strconv.Quote(name) || text == strconv.Itoa(int(number)) {
			*s = signal(name)
			return nil
		}
	}
	return agentbox.Errorf(agentbox.Invalid, "%.40q is no signal that a process can be sent", b)
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
	connect.WithCodec(codec("json")), connect.WithCodec(codec("json; charset=utf-8")), connect.WithCodec(protobuf{}), connect.WithReadMaxBytes(maxMessage),
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
