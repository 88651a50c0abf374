package agentbox_test

import (
	"encoding/json"
	"testing"
	"time"

	"agentbox/agentbox"
)

func TestLimitRoundTrip(t *testing.T) {
	for text, l := range map[string]agentbox.Limit{
		"wall 10s":      {Kind: agentbox.LimitWall, Time: 10 * time.Second},
		"idle 15m0s":    {Kind: agentbox.LimitIdle, Time: 15 * time.Minute},
		"cpu 1h0m0s":    {Kind: agentbox.LimitCPU, Time: time.Hour},
		"disk 256 MiB":  {Kind: agentbox.LimitDisk, Count: 256 << 20},
		"bytes 1000":    {Kind: agentbox.LimitBytes, Count: 1000},
		"connections 3": {Kind: agentbox.LimitConnections, Count: 3},
		"tokens 500":    {Kind: agentbox.LimitTokens, Count: 500},
		"cost 1.5 EUR":  {Kind: agentbox.LimitCost, Cost: 1.5, Currency: "EUR"},
		"":              {},
	} {
		b, err := json.Marshal(agentbox.End{Cause: agentbox.EndLimit, Limit: l})
		if err != nil {
			t.Fatal(err)
		}
		var back agentbox.End
		if err := json.Unmarshal(b, &back); err != nil || back.Limit != l || l.String() != text {
			t.Errorf("%q: %s is read as %+v, %v", text, b, back, err)
		}
	}
	for _, text := range []string{"wall", "wall x", "disk 1 GiB", "disk 99999999999 MiB", "memory 5", "bytes"} {
		if l, err := agentbox.ParseLimit(text); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%q is %v, %v", text, l, err)
		}
	}
}
