//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWarmUpCommand(t *testing.T) {
	f := start(t)
	file := filepath.Join(t.TempDir(), "done")
	f.agent.runDiscarded([]string{"sh", "-c", "echo nobody reads this; echo x > " + file})
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	f.agent.runDiscarded([]string{"no-such-program"}) // returns, and says it to nobody
}
