package protocol

import (
	"encoding/json"
	"testing"
)

func TestHasAttach(t *testing.T) {
	hello := Hello{Version: Version, Hostname: `"attach":`, Token: `"attach":`}
	for _, attach := range []json.RawMessage{nil, json.RawMessage(`{"workspace":true}`)} {
		hello.Attach = attach
		line, err := json.Marshal(hello)
		if err != nil {
			t.Fatal(err)
		}
		if got := HasAttach(line); got != (attach != nil) {
			t.Errorf("%s: %v", line, got)
		}
	}
}
