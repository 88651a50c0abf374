package egress

import (
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/policy"
)

func TestRuleInAnotherListIsReported(t *testing.T) {
	r, err := policy.ParseRule("host.agentbox.internal:8080")
	if err != nil {
		t.Fatal(err)
	}
	f := policy.File{Private: []policy.Rule{r}}
	err = change(&f, api.ChangeRequest{List: "allow", Remove: true}, []policy.Rule{r})
	if e := agentbox.AsError(err); e == nil || e.Code != agentbox.NotFound || !strings.Contains(e.Hint, "agentbox policy allow --private --remove 'host.agentbox.internal:8080'") {
		t.Errorf("%#v", e)
	}
	err = change(&policy.File{}, api.ChangeRequest{List: "allow", Remove: true}, []policy.Rule{r})
	if e := agentbox.AsError(err); e == nil || strings.Contains(e.Hint, "--private") {
		t.Errorf("in none: %#v", e)
	}
}
