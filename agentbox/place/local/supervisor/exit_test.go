package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/vmm"
)

func TestExitNoteIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	if _, ok, err := TakeExit(dir); ok || err != nil {
		t.Fatalf("a killed supervisor left a note: %v, %v", ok, err)
	}
	reason := agentbox.Errorf(agentbox.NoSpace, "the disk is full").WithHint("free some")
	for range 2 { // a note nobody took is replaced
		if err := writeExit(dir, failureExit(reason, false)); err != nil {
			t.Fatal(err)
		}
	}
	e, ok, err := TakeExit(dir)
	if err != nil || !ok || e.Reason.Code != reason.Code || e.Reason.Message != reason.Message || e.Reason.Hint != reason.Hint {
		t.Fatalf("%+v, %v, %v", e.Reason, ok, err)
	}
	if e.End.Cause != agentbox.EndFailed {
		t.Errorf("a machine that never ran: %+v", e)
	}
	if age := time.Since(e.Time); age < 0 || age > time.Minute {
		t.Errorf("it was written %s ago", age)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A full disk is what a supervisor may have to tell: its note takes no room beyond what was reserved.
func TestExitNoteNeedsNoRoom(t *testing.T) {
	dir := t.TempDir()
	if err := ReserveExit(dir); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := readExit(dir); ok || err != nil {
		t.Fatalf("reserved room reads as a note: %v, %v", ok, err)
	}
	blocks := func() (int64, uint64) {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, exitFile), &st); err != nil {
			t.Fatal(err)
		}
		return int64(st.Blocks), st.Ino
	}
	room, file := blocks()
	if err := writeExit(dir, failureExit(agentbox.Errorf(agentbox.NoSpace, "the disk is full"), false)); err != nil {
		t.Fatal(err)
	}
	if now, same := blocks(); now != room || same != file {
		t.Errorf("%d blocks of file %d were reserved, %d of %d are used", room, file, now, same)
	}
	if e, ok, err := TakeExit(dir); err != nil || !ok || e.Reason.Code != agentbox.NoSpace {
		t.Errorf("%+v, %v, %v", e, ok, err)
	}
}

func TestExitCauseAfterStart(t *testing.T) {
	silent := errors.New("it does not answer")
	for name, left := range map[string]Exit{"not greeted": failureExit(silent, true), "restored in part": failureExit(&vmm.MayHaveRun{Cause: silent}, false)} {
		dir := t.TempDir()
		if err := writeExit(dir, left); err != nil {
			t.Fatal(err)
		}
		e, ok, err := TakeExit(dir)
		if err != nil || !ok || e.End.Cause != agentbox.EndDied || e.End.Detail != "it does not answer" {
			t.Errorf("%s: %+v, %v, %v", name, e, ok, err)
		}
	}
}

func TestBrokenExitNoteIsRemoved(t *testing.T) {
	for name, note := range map[string]string{"empty": "", "half": `{"reason":{"co`, "no reason": "{}", "null": `{"reason":null}`, "another type": "[]"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, exitFile)
			if err := os.WriteFile(path, []byte(note), 0o600); err != nil {
				t.Fatal(err)
			}
			if e, ok, _ := TakeExit(dir); ok || e.Reason != nil {
				t.Errorf("%+v", e)
			}
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Error("it is still there, and would be read as the next supervisor's")
			}
		})
	}
}
