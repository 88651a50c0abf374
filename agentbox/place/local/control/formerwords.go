package control

import (
	"cmp"
	"context"
	"encoding/json"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// formerAccount is Account as builds up to 0e3ba6c8 call it.
var formerAccount = api.Endpoint[api.None, api.None]{Path: "/v1/testify"}

// WriteAccount calls Account of a supervisor of any build.
func WriteAccount(ctx context.Context, c *api.Client) error {
	_, err := api.Call(ctx, c, Account, api.None{}, nil)
	if agentbox.CodeOf(err) == agentbox.Unavailable && !api.IsUnreachable(err) {
		_, err = api.Call(ctx, c, formerAccount, api.None{}, nil)
	}
	return err
}

// UnmarshalJSON also reads the words of a supervisor of a build up to 0e3ba6c8, which outlives the
// daemon that started it.
func (s *Status) UnmarshalJSON(b []byte) error {
	type plain Status
	former := struct {
		*plain
		Attached, Unlogged bool
		NoCard             bool `json:"no_card"`
	}{plain: (*plain)(s)}
	err := json.Unmarshal(b, &former)
	s.Configured = s.Configured || former.Attached
	s.AuditLogFailed = s.AuditLogFailed || former.Unlogged
	s.NoNetworkCard = s.NoNetworkCard || former.NoCard
	return err
}

// UnmarshalJSON also reads the words of a supervisor of a build up to 0e3ba6c8.
func (l *LeaseStatus) UnmarshalJSON(b []byte) error {
	type plain LeaseStatus
	former := struct {
		*plain
		Working  int
		Unpaused string
	}{plain: (*plain)(l)}
	err := json.Unmarshal(b, &former)
	l.Holders = cmp.Or(l.Holders, former.Working)
	l.PauseError = cmp.Or(l.PauseError, former.Unpaused)
	return err
}
