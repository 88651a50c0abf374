package cli

import (
	"testing"

	"agentbox/agentbox"
)

func TestQuotaArguments(t *testing.T) {
	req, err := quotaRequest([]string{"40GiB", "image=20GiB", "cache=0"})
	if err != nil || *req.Total != 40<<30 || req.Kinds["image"] != 20<<30 || req.Kinds["cache"] != 0 || len(req.Kinds) != 2 {
		t.Fatalf("%+v, %v", req, err)
	}
	if req, err := quotaRequest(nil); err != nil || req.Total != nil || len(req.Kinds) != 0 {
		t.Fatalf("%+v, %v", req, err)
	}
	if _, err := quotaRequest([]string{"much"}); agentbox.CodeOf(err) != agentbox.Invalid || agentbox.AsError(err).Hint == "" {
		t.Fatal(err)
	}
}
