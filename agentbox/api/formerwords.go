package api

import (
	"cmp"
	"context"
	"encoding/json"

	"agentbox/agentbox"
)

// formerAccount is SupervisorAccount as builds up to 0e3ba6c8 call it.
var formerAccount = Endpoint[None, None]{"/v1/testify"}

// WriteAccount calls SupervisorAccount of a supervisor of any build.
func WriteAccount(ctx context.Context, c *Client) error {
	_, err := Call(ctx, c, SupervisorAccount, None{}, nil)
	if agentbox.CodeOf(err) == agentbox.Unavailable && !IsUnreachable(err) {
		_, err = Call(ctx, c, formerAccount, None{}, nil)
	}
	return err
}

// UnmarshalJSON also reads the words of a supervisor of a build up to 0e3ba6c8, which outlives the
// daemon that started it.
func (s *SupervisorStatus) UnmarshalJSON(b []byte) error {
	type plain SupervisorStatus
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
