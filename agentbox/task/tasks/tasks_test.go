package tasks

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/task"
	"agentbox/mesh/identity"
)

// Who asks for the newest tasks, or those of a time, gets no others; removed ones are gone at once.
func TestListTasks(t *testing.T) {
	dir := t.TempDir()
	for i, id := range []string{"t-00000003", "t-00000001", "t-00000002"} {
		file := filepath.Join(dir, id, "task.json")
		record := `{"version":1,"id":"` + id + `","project":"p","created":"2026-11-0` + string(rune('1'+i)) + `T00:00:00Z"}`
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"task.json": record, "cancelled": "{}"} {
			if err := os.WriteFile(filepath.Join(filepath.Dir(file), name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := Tasks{Queue: &task.Queue{Config: task.Config{Store: task.Store{Dir: dir, Memory: new(task.Memory)}}}}
	list := func(req api.TaskList) (ids []string) {
		req.All = true
		got, err := all.list(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range got {
			if one.State != agentbox.TaskCancelled {
				t.Errorf("%s is %s", one.ID, one.State)
			}
			ids = append(ids, one.ID.String())
		}
		return ids
	}
	for range 2 { // the second time from memory
		if got, want := list(api.TaskList{}), []string{"t-00000003", "t-00000001", "t-00000002"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got, want := list(api.TaskList{Newest: 2}), []string{"t-00000001", "t-00000002"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	last, err := all.Queue.Store.Read(agentbox.TaskID{0, 0, 0, 2})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := list(api.TaskList{Since: last.Created}), []string{"t-00000002"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := os.RemoveAll(filepath.Join(dir, "t-00000001")); err != nil {
		t.Fatal(err)
	}
	if got, want := list(api.TaskList{Newest: 2}), []string{"t-00000003", "t-00000002"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// others has a task followed once that was waited for.
type others struct {
	Elsewhere
	followed chan struct{}
	asked    int
}

func (o *others) Followed() <-chan struct{} { return o.followed }

func (o *others) Transfer(agentbox.TaskID, identity.PeerID) error {
	if o.asked++; o.asked == 1 {
		close(o.followed)
		return agentbox.Errorf(agentbox.Conflict, "nobody follows it")
	}
	return nil
}

// A task that the queue has not looked at yet, since its daemon has just begun, is transferred; one that
// waits for its turn is not waited for.
func TestTransferWaits(t *testing.T) {
	store := task.Store{Dir: t.TempDir()}
	for id, attempt := range map[agentbox.TaskID]string{{1}: `{"number":1}`, {2}: ""} {
		dir := filepath.Join(store.Dir, id.String())
		if err := os.MkdirAll(store.Attempt(id, 1), 0o700); err != nil {
			t.Fatal(err)
		}
		record := `{"version":1,"id":"` + id.String() + `","where":"idle","created":"2026-11-01T00:00:00Z"}`
		err := os.WriteFile(filepath.Join(dir, "task.json"), []byte(record), 0o600)
		if attempt != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(store.Attempt(id, 1), "attempt.json"), []byte(attempt), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		all := Tasks{Queue: &task.Queue{Config: task.Config{Store: store}}, Elsewhere: &others{followed: make(chan struct{})}}
		got, err := all.Transfer(t.Context(), api.TaskTransfer{Tasks: []string{id.String()}}, nil)
		if began := attempt != ""; began != (err == nil) || began != (len(got) == 1) {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
}
