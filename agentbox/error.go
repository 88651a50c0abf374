package agentbox

import (
	"errors"
	"fmt"
	"syscall"
)

// Code classifies an error for a program; the message and the hint are for a person. Callers branch
// on codes and never on messages.
type Code string

// The codes that cross the API. The mapping to HTTP status lives in the api package, in one table.
const (
	Invalid  Code = "invalid"   // the caller's input is wrong: fix it and call again
	NotFound Code = "not_found" // no such box, image, checkpoint, ...
	Conflict Code = "conflict"  // the thing exists but its state forbids this now
	Exists   Code = "exists"    // the name is taken
	NoSpace  Code = "no_space"  // the host or the box has no room left
	Missing  Code = "missing"   // the host lacks something: a program, a kernel, a permission
	Corrupt  Code = "corrupt"   // bytes are not what their digest says
	// Unavailable: the other side does not answer, be it a machine, a supervisor, the daemon or a
	// peer. To try again may help.
	Unavailable Code = "unavailable"
	Timeout     Code = "timeout"  // a limit was reached
	Internal    Code = "internal" // anything else: a bug, or a host error nobody foresaw
)

// Error is what a user sees: what failed, on what, and what to do next. Message is one line without
// a trailing full stop; Hint is one line or empty. It is what every error becomes at the edge of
// the API; below, errors are wrapped with %w as everywhere in Go, and an Error may be anywhere in
// the chain. An Error that has been returned is not changed any more.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// End is why the machine that the error is about ended; nil where that is not the reason. The
	// command line puts it behind the message, which says only that it ended.
	End   *End `json:"end,omitempty"`
	cause error
}

func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause, which never crosses the API.
func (e *Error) Unwrap() error { return e.cause }

// Errorf makes an Error; a %w verb keeps the cause. Only one %w is looked for. An *Error that is
// wrapped keeps neither its code nor its hint: to keep them, wrap it with fmt.Errorf.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// WithHint adds what to do next and returns the same error. It is for the place that has just made
// e: it changes e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// AsError finds the first *Error in err's chain, keeping the whole chain's message; any other error
// becomes Internal. So a caller may add where it happened with fmt.Errorf and %w, and the code, the
// hint and the end of the cause still reach the user.
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

// CodeOf is the code of err, Internal for errors that carry none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}

// OrNoSpace gives the host's full disk its code and says what frees room; other errors pass
// unchanged. A disk that is full may be met at any write, so the code is given at the top of
// operations and not at each of them.
func OrNoSpace(err error) error {
	if err == nil || CodeOf(err) == NoSpace || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return Errorf(NoSpace, "%w", err).WithHint("agentbox prune frees what no box needs; agentbox ls shows the boxes")
}
