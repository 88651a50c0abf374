//go:build linux

package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"agentbox/vmm/guest/protocol"
)

// clockSlack is the error of the guest's clock that is left alone.
const clockSlack = 20 * time.Millisecond

// setClock steps the clock to a ThawRequest's, if it is off, unless that has none.
func (a *Agent) setClock(payload []byte) error {
	var r protocol.ThawRequest
	if err := json.Unmarshal(payload, &r); err != nil {
		return fmt.Errorf("malformed request: %w", err)
	}
	if r.Time.IsZero() || time.Until(r.Time).Abs() < clockSlack {
		return nil
	}
	return a.Machine.SetClock(r.Time)
}
