package api

import (
	"net/http"

	"agentbox/agentbox"
)

// statuses maps error codes to HTTP statuses; no other table does.
var statuses = map[agentbox.Code]int{
	agentbox.Invalid:     http.StatusBadRequest,
	agentbox.NotFound:    http.StatusNotFound,
	agentbox.Conflict:    http.StatusConflict,
	agentbox.Exists:      http.StatusConflict,
	agentbox.NoSpace:     http.StatusInsufficientStorage,
	agentbox.Missing:     http.StatusFailedDependency,
	agentbox.Corrupt:     http.StatusUnprocessableEntity,
	agentbox.Unavailable: http.StatusServiceUnavailable,
	agentbox.Timeout:     http.StatusGatewayTimeout,

	agentbox.Unauthorized: http.StatusUnauthorized,
	agentbox.Forbidden:    http.StatusForbidden,
	agentbox.Busy:         http.StatusTooManyRequests,
}

// StatusOf returns 500 for a code that is not in the table, such as Internal.
func StatusOf(code agentbox.Code) int {
	if s, ok := statuses[code]; ok {
		return s
	}
	return http.StatusInternalServerError
}
