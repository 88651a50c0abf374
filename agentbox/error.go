package agentbox

import (
	"errors"
	"fmt"
	"syscall"
)

// Code classifies an error for programs; the message and the hint are for people. Callers branch on
// codes, never on messages.
type Code string

// The codes that cross the API. Package api maps them to HTTP statuses in one table.
const (
	Invalid  Code = "invalid"   // the caller's input is wrong: fix it and call again
	NotFound Code = "not_found" // no such box, image, checkpoint, ...
	Conflict Code = "conflict"  // the object exists but its state does not permit this now
	Exists   Code = "exists"    // the name is taken
	NoSpace  Code = "no_space"  // the host or the box has no room left
	Missing  Code = "missing"   // the host lacks something: a program, a kernel, a permission
	Corrupt  Code = "corrupt"   // bytes do not match their digest
	// Unavailable: the other side (a machine, a supervisor, the daemon or a peer) does not answer.
	// A retry may help.
	Unavailable Code = "unavailable"
	Timeout     Code = "timeout" // a limit was reached
	// The last three are of the door for other programs (agentbox serve).
	Unauthorized Code = "unauthorized" // no token that is valid now
	Forbidden    Code = "forbidden"    // the token is not for this
	Busy         Code = "busy"         // too many requests; a later one may be served
	Internal     Code = "internal"     // anything else: a bug, or an unforeseen host error
)

// Error is what a user sees: what failed, on what, and what to do next. Message is one line without
// a full stop at its end; Hint is one line or empty. Every error becomes an Error at the edge of
// the API. Below that edge, errors are wrapped with %w as usual, and an Error may be anywhere in
// the chain. Do not change an Error after it was returned.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// End is why the machine that the error is about ended, or nil if that is not the reason. The
	// command line appends it to the message, which says only that the machine ended.
	End   *End `json:"end,omitempty"`
	cause error
}

// Error returns the message, without the hint.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, which never crosses the API.
func (e *Error) Unwrap() error { return e.cause }

// Errorf makes an Error. A %w verb keeps the cause, and if that is an *Error, or wraps one, its code,
// hint and end, too: who is nearest to a failure knows best what it is. code is for other causes.
func Errorf(code Code, format string, args ...any) *Error {
	e := Classify(code, format, args...)
	var inner *Error
	if errors.As(e.cause, &inner) {
		e.Code, e.Hint, e.End = inner.Code, inner.Hint, inner.End
	}
	return e
}

// Classify is Errorf for a caller that knows better than the cause what a failure is: what is
// Invalid for a parser is Corrupt where the store wrote it, for example. It drops the cause's hint
// and end.
func Classify(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: err}
}

// WithHint adds what to do next and returns e. It modifies e, so only the code that has just made e
// may call it.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// AsError returns the first *Error in err's chain, with the message of the whole chain. Any other
// error becomes Internal. Callers can thus add context with fmt.Errorf and %w, and the cause's
// code, hint and end still reach the user.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		return &Error{Code: Internal, Message: err.Error(), cause: err}
	}
	if err.Error() == e.Message {
		return e
	}
	return &Error{Code: e.Code, Message: err.Error(), Hint: e.Hint, End: e.End, cause: err}
}

// CodeOf returns the code of err: Internal for errors that carry none, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}

// MarkNoSpace gives an error about the host's full disk the code NoSpace and says what frees space;
// other errors pass unchanged. Any write can fail this way, so the code is set once, at the top of
// each operation.
func MarkNoSpace(err error) error {
	if err == nil || CodeOf(err) == NoSpace || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return Classify(NoSpace, "%w", err).WithHint("agentbox prune frees what no box needs; agentbox ls shows the boxes")
}
