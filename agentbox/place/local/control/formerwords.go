package control

import (
	"cmp"
	"context"
	"encoding/json"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
)

// formerAccount is Account as builds up to 0e3ba6c8 call it.
var formerAccount = api.Endpoint[api.None, api.None]{Path: "/v1/testify"}

// WriteAccount calls Account of a supervisor of any build.
func WriteAccount(ctx context.Context, c *api.Client) error {
	_, err := api.Call(ctx, c, Account, api.None{}, nil)
	if IsUnknown(err) {
		_, err = api.Call(ctx, c, formerAccount, api.None{}, nil)
	}
	return err
}

// IsUnknown tells whether a supervisor of an earlier build answered that it knows no such call.
func IsUnknown(err error) bool {
	return agentbox.CodeOf(err) == agentbox.Unavailable && !api.IsUnreachable(err)
}

// UnmarshalJSON also reads the words of a supervisor of a build up to 0e3ba6c8, which outlives the
// daemon that started it.
func (s *Status) UnmarshalJSON(b []byte) error {
	former := struct {
		*place.Status
		Attached, Unlogged bool
		NoCard             bool `json:"no_card"`
		Lease              struct {
			*place.Lease
			Working  int
			Unpaused string
		} `json:"lease"`
	}{Status: &s.Status}
	former.Lease.Lease = &s.Lease
	err := json.Unmarshal(b, &former)
	s.Configured = s.Configured || former.Attached
	s.AuditLogFailed = s.AuditLogFailed || former.Unlogged
	s.NoNetworkCard = s.NoNetworkCard || former.NoCard
	s.Lease.Holders = cmp.Or(s.Lease.Holders, former.Lease.Working)
	s.Lease.PauseError = cmp.Or(s.Lease.PauseError, former.Lease.Unpaused)
	return err
}
