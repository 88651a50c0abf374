//go:build !linux

package idle

import (
	"context"

	"agentbox/agentbox/api"
)

// measure measures nothing: only the policy and the hours decide.
func measure(context.Context, string) api.IdleFacts { return api.IdleFacts{} }
