package api

import (
	"net/http"
	"testing"

	"agentbox/agentbox"
)

func TestHTTPStatuses(t *testing.T) {
	for code, want := range map[agentbox.Code]int{
		agentbox.Invalid: 400, agentbox.NotFound: 404, agentbox.Conflict: 409, agentbox.Exists: 409, agentbox.Corrupt: 422,
		agentbox.Missing: 424, agentbox.Internal: 500, agentbox.Unavailable: 503, agentbox.Timeout: 504, agentbox.NoSpace: 507,
		"a code of a later version": http.StatusInternalServerError,
	} {
		if got := StatusOf(code); got != want {
			t.Errorf("%s is %d, want %d", code, got, want)
		}
	}
}
