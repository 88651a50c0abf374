package tasks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/artifact"
	"agentbox/agentbox/job/jobs"
	"agentbox/agentbox/task"
	"agentbox/vmm/guest/protocol"
)

// noBoxes has none.
type noBoxes struct{ jobs.Boxes }

func (noBoxes) Connect(context.Context, api.BoxRef, agentbox.Progress) (api.Connection, error) {
	return api.Connection{}, errors.New("the box is gone")
}

// What a box calls the size of a file that it does not send is what is read here.
func TestSizeRecord(t *testing.T) {
	if artifact.SizeRecord != protocol.SizeRecord {
		t.Errorf("%s, %s", artifact.SizeRecord, protocol.SizeRecord)
	}
}

// A daemon that dies after the statement and before the result collects again. If the box is gone
// by then, no statement may be left that vouches for files which are not there.
func TestCollectAgainReplacesStatement(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{statementFile, artifactsDir + "/app"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("old"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	a := Artifacts{Jobs: jobs.Jobs{Boxes: noBoxes{}}}
	if _, err := a.Collect(t.Context(), agentbox.Box{}, agentbox.Task{TaskSpec: agentbox.TaskSpec{Artifacts: []string{"app"}}}, task.Kept{}, dir); err == nil {
		t.Fatal("artifacts of a box that is gone")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
