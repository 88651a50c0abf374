package control

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
)

// A supervisor outlives the daemon that started it, so what one of an earlier build answers is read.
func TestAnswersOfEarlierSupervisorsAreRead(t *testing.T) {
	const answer = `{"pid":7,"machine":null,"life":3,"attached":true,"lease":{"left":5,"term":9,"working":2,"unpaused":"no room"},"no_card":true,"unlogged":true}`
	var got Status
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatal(err)
	}
	want := Status{place.Status{
		PID: 7, Life: 3, Configured: true, NoNetworkCard: true, AuditLogFailed: true,
		Lease: place.Lease{Left: 5, Term: 9, Holders: 2, PauseError: "no room"},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	again, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var same Status
	if err := json.Unmarshal(again, &same); err != nil || !reflect.DeepEqual(same, want) {
		t.Errorf("%s is read as %+v, %v", again, same, err)
	}
}

func TestAccountOfEarlierSupervisorIsWritten(t *testing.T) {
	calls := 0
	mux := http.NewServeMux()
	api.Handle(mux, api.Endpoint[api.None, api.None]{Path: "/v1/testify"}, func(context.Context, api.None, agentbox.Progress) (api.None, error) {
		calls++
		return api.None{}, nil
	})
	server := httptest.NewUnstartedServer(mux)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server.Listener = l
	server.Start()
	defer server.Close()
	client := api.NewClient(l.Addr().String())
	defer client.Close()
	if err := WriteAccount(t.Context(), client); err != nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
