//go:build !linux

package yielding

import (
	"context"
	"os/exec"

	"agentbox/agentbox/resources"
)

// Start starts a command: no boxes run here.
func Start(cmd *exec.Cmd, _ resources.Yield, _ string, _ int64) error { return cmd.Start() }

// Sessions does nothing.
func Sessions(context.Context) error { return nil }

// Remove removes nothing.
func Remove(string) error { return nil }

// Means has nothing.
func Means() (bool, []string) { return false, nil }
