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

func TestErrorThatWrapsCodedErrorKeepsItsCode(t *testing.T) {
	inner := agentbox.Errorf(agentbox.NoSpace, "the disk is full").WithHint("free some")
	inner.End = &agentbox.End{Cause: agentbox.EndDied}
	got := agentbox.Errorf(agentbox.Internal, "save the box: %w", fmt.Errorf("write: %w", inner))
	if got.Code != agentbox.NoSpace || got.Hint != "free some" || got.End != inner.End || got.Message != "save the box: write: the disk is full" || !errors.Is(got, inner) {
		t.Errorf("Errorf = %+v", got)
	}
	if got = got.WithHint("try later"); got.Hint != "try later" || inner.Hint != "free some" {
		t.Errorf("%+v of %+v", got, inner)
	}
	got = agentbox.Classify(agentbox.Corrupt, "record: %w", inner)
	if got.Code != agentbox.Corrupt || got.Hint != "" || got.End != nil || !errors.Is(got, inner) {
		t.Errorf("Classify = %+v", got)
	}
	if got := agentbox.Errorf(agentbox.Missing, "%w: %w", os.ErrNotExist, os.ErrPermission); got.Code != agentbox.Missing || !errors.Is(got, os.ErrPermission) {
		t.Errorf("Errorf = %+v", got)
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
