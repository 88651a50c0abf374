package agentbox

import (
	"encoding/json"
	"testing"
)

// What a task used is in homes of builds up to 0e3ba6c8 under the former word.
func TestTokensOfEarlierBuildsAreRead(t *testing.T) {
	want := Tokens{Answers: 3, Unreported: 2, Input: 5}
	for _, text := range []string{`{"answers":3,"unsaid":2,"input":5,"output":0}`, `{"answers":3,"unreported":2,"input":5,"output":0}`} {
		var got Tokens
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
}
