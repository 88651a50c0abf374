package bench

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
)

func notes(said *[]string) agentbox.Progress {
	return func(e agentbox.Event) {
		if e.Note {
			*said = append(*said, e.Detail)
		}
	}
}

func shell(t *testing.T) Program {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	return Program{Path: sh, Env: []string{"GREETING=hello"}}
}

func TestProgramRun(t *testing.T) {
	out, took, err := shell(t).Run(t.Context(), t.TempDir(), "-c", `sleep 0.2; echo $GREETING`)
	if err != nil || string(out) != "hello\n" || took < 200*time.Millisecond || took > time.Minute {
		t.Errorf("got %q after %s, %v", out, took, err)
	}
}

func TestProgramFailure(t *testing.T) {
	script := `echo "- step 1 s" >&2; echo "agentbox: no luck" >&2; echo "hint: try again" >&2; exit 125`
	_, _, err := shell(t).Run(t.Context(), t.TempDir(), "-c", script)
	if err == nil || !strings.HasSuffix(err.Error(), ": no luck") || agentbox.AsError(err).Hint != "try again" {
		t.Errorf("got %v", err)
	}
	_, _, err = shell(t).Run(t.Context(), t.TempDir(), "-c", "exit 3")
	if err == nil || !strings.HasSuffix(err.Error(), ": exit status 3") {
		t.Errorf("got %v", err)
	}
}

func TestProgramDeadline(t *testing.T) {
	late := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, late)
	defer cancel()
	_, took, err := shell(t).Run(ctx, t.TempDir(), "-c", "exec sleep 60")
	if !errors.Is(err, late) || took > 50*time.Second {
		t.Errorf("got %v after %s", err, took)
	}
}

// A command that says nothing new is ended, with what it said last; one that does is not.
func TestProgramQuiet(t *testing.T) {
	quiet := shell(t)
	quiet.Quiet = time.Second
	if _, _, err := quiet.Run(t.Context(), t.TempDir(), "-c", "echo '- image 3 s' >&2; exec sleep 1000"); err == nil || !strings.Contains(err.Error(), `nothing new for 1s, after "- image 3 s"`) {
		t.Errorf("got %v", err)
	}
	quiet.Quiet = time.Hour
	if _, _, err := quiet.Run(t.Context(), t.TempDir(), "-c", "echo one >&2; echo two >&2"); err != nil {
		t.Error(err)
	}
}
