package agentbox_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"agentbox/agentbox"
)

func TestErrorKeepsCodeHintAndContext(t *testing.T) {
	inner := agentbox.Errorf(agentbox.NoSpace, "write disk: %w", os.ErrPermission).WithHint("free some")
	outer := agentbox.AsError(fmt.Errorf("box app: %w", inner))
	if outer.Code != agentbox.NoSpace || outer.Hint != "free some" || outer.Message != "box app: write disk: permission denied" {
		t.Errorf("AsError = %+v", outer)
	}
	if !errors.Is(outer, os.ErrPermission) {
		t.Error("the cause is lost")
	}
}

func TestErrorOfUnknownKindIsInternal(t *testing.T) {
	if got := agentbox.CodeOf(errors.New("boom")); got != agentbox.Internal {
		t.Errorf("CodeOf = %q", got)
	}
	if agentbox.AsError(nil) != nil || agentbox.CodeOf(nil) != "" {
		t.Error("nil is an error")
	}
}
