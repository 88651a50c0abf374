package api

import (
	"net/http"

	"agentbox/agentbox"
)

// statuses is the one table between error codes and HTTP statuses. The code in the body is what
// clients act on.
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
}

// statusOf is 500 for a code that is not in the table, Internal first of all.
func statusOf(code agentbox.Code) int {
	if s, ok := statuses[code]; ok {
		return s
	}
	return http.StatusInternalServerError
}
