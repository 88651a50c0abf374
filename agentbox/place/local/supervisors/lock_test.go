package supervisors

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"agentbox/agentbox/durable"
	"agentbox/tools/suites/supervisortest"
)

func TestMain(m *testing.M) { supervisortest.Main(m) }

func TestLockEndsWithHolder(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	if held, err := durable.Held(lock); held || err != nil {
		t.Fatalf("a lock nobody made: %v, %v", held, err)
	}
	_, let, _ := supervisortest.Hold(t, lock, supervisortest.Itself)
	for range 2 { // asking does not take it
		if held, err := durable.Held(lock); !held || err != nil {
			t.Fatalf("%v, %v", held, err)
		}
	}
	free := make(chan struct{})
	go func() {
		defer close(free)
		awaitUnlocked(lock)
	}()
	select {
	case <-free:
		t.Fatal("awaitFree returns while the lock is held")
	case <-time.After(50 * time.Millisecond):
	}
	let()
	supervisortest.Within(t, "awaitFree", free)
}

func TestKillHolder(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	bystander, _, bystanderEnded := supervisortest.Hold(t, filepath.Join(t.TempDir(), "other"), supervisortest.Itself)
	// Nobody holds this one, so whoever is named in it is not the holder.
	if err := os.WriteFile(lock, []byte(strconv.Itoa(bystander)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := KillHolder(lock); err != nil {
		t.Fatal(err)
	}
	_, _, ended := supervisortest.Hold(t, lock, supervisortest.Itself)
	if err := KillHolder(lock); err != nil {
		t.Fatal(err)
	}
	supervisortest.Within(t, "the holder", ended)
	select {
	case <-bystanderEnded:
		t.Error("a bystander was killed")
	default:
	}
}

func TestKillHolderUnknown(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "words": "me", "everybody": "-1", "init": "1", "no one": "0"} {
		t.Run(name, func(t *testing.T) {
			lock := filepath.Join(t.TempDir(), "lock")
			supervisortest.Hold(t, lock, func(int) string { return text })
			if err := KillHolder(lock); err == nil {
				t.Error("it claims to have killed somebody")
			}
		})
	}
}

// The machine inherits the lock and outlives its killed supervisor by a moment.
func TestKillHolderDuringMachineExit(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Skip("no true here:", err)
	}
	lock := filepath.Join(t.TempDir(), "lock")
	supervisortest.Hold(t, lock, func(int) string { return supervisortest.Itself(dead.Process.Pid) })
	if err := KillHolder(lock); err != nil {
		t.Error(err)
	}
}
