//go:build linux

package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentbox/vmm/guest"
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

func TestWarmUpOnAttach(t *testing.T) {
	f := start(t)
	ran := make(chan string, 8)
	f.agent.Machine.WarmUp = true
	f.agent.Machine.Cgroup = func(group string) (*os.File, func(), error) {
		ran <- group
		return nil, func() {}, nil
	}
	f.connect().Close()
	if len(ran) != 0 {
		t.Errorf("a life without a box ran a command in group %q", <-ran)
	}
	hello := guest.NewHello("box")
	hello.Attach = json.RawMessage(`{}`)
	c, err := guest.Connect(t.Context(), f, hello)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	select {
	case group := <-ran:
		if group != sessionGroup {
			t.Errorf("in group %q", group)
		}
	case <-time.After(5 * time.Minute):
		t.Error("it ran nothing")
	}
}
