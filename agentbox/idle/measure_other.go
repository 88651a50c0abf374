//go:build !linux

package idle

import (
	"context"

	"agentbox/agentbox/api"
)

// measure measures nothing: only the policy and the hours decide.
func (m *Meter) measure(context.Context, string, bool) api.IdleFacts { return api.IdleFacts{} }
