package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"agentbox/agentbox"
)

func TestRecordRoundTrip(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("mine")
	rec.Box.Checkpoint = []agentbox.Checkpoint{{ID: "c", Name: "before", Bytes: 1}}
	names := write(t, h, rec)
	got, err := readRecord(names.Record())
	rec.Version = recordVersion
	if err != nil || !reflect.DeepEqual(got, rec) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, rec)
	}
	if fi, err := os.Stat(names.Record()); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
}

func TestUnreadableRecordError(t *testing.T) {
	for text, want := range map[string]string{
		"": "not a box record", `{"version":1,`: "not a box record", `{"version":1,"box":{"id":"x"}}`: "not a box record",
		"{}": "another version", `{"version":2}`: "another version",
	} {
		path := filepath.Join(t.TempDir(), "box.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readRecord(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := readRecord(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
}

func TestWriteRecordOnFullDisk(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		err := agentbox.MarkNoSpace(fmt.Errorf("write x: %w", &os.PathError{Op: "write", Path: "x", Err: cause}))
		e := agentbox.AsError(err)
		if e.Code != agentbox.NoSpace || !strings.Contains(e.Hint, "prune") || !strings.Contains(e.Message, "x") || !errors.Is(err, cause) {
			t.Errorf("%v: %#v", cause, e)
		}
	}
	own := agentbox.Errorf(agentbox.NoSpace, "the box is full: %w", syscall.ENOSPC).WithHint("its own")
	for _, err := range []error{nil, own, os.ErrPermission} {
		if got := agentbox.MarkNoSpace(err); got != err {
			t.Errorf("%v becomes %v", err, got)
		}
	}
}

// Of changes that are made at once, each is on disk when all have returned, whichever was written
// last.
func TestConcurrentRecordChanges(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("mine")
	names := write(t, h, rec)
	b := &box{rec: rec}
	for range 20 {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if err := b.change(h, func(rec *record) {
					rec.Recalled = withEntry(rec.Recalled, strconv.Itoa(i), rec.Recalled[strconv.Itoa(i)]+1)
				}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		onDisk, err := readRecord(names.Record())
		if err != nil || !maps.Equal(onDisk.Recalled, b.record().Recalled) {
			t.Fatalf("%v on disk, %v in memory, %v", onDisk.Recalled, b.record().Recalled, err)
		}
	}
}

// A document may be approved while an operation works on a copy of the record.
func TestApprovalDuringOperation(t *testing.T) {
	for _, approved := range []string{"new", "old"} { // old: the same once more, and the operation saw another one before
		h := newHome(t)
		rec := newTestRecord("mine")
		rec.Approved = "old"
		names := write(t, h, rec)
		b := &box{rec: rec}
		next := b.record()
		next.Approved, next.Life = "seen by the operation", 2
		if err := b.setApproved(h, approved); err != nil {
			t.Fatal(err)
		}
		if err := b.commit(h, next); err != nil {
			t.Fatal(err)
		}
		onDisk, err := readRecord(names.Record())
		if err != nil || onDisk.Approved != approved || onDisk.Life != 2 || b.record().Approved != approved {
			t.Errorf("%q of life %d is on disk, %q in memory, want %q: %v", onDisk.Approved, onDisk.Life, b.record().Approved, approved, err)
		}
		// The next operation has its own word.
		next = b.record()
		next.Approved = "later"
		if err := b.commit(h, next); err != nil || b.record().Approved != "later" {
			t.Errorf("%q, %v", b.record().Approved, err)
		}
	}
}

// A home of a build up to 0e3ba6c8 has records in which the guest's configuration was "attach".
func TestRecordOfEarlierBuildIsRead(t *testing.T) {
	want := newTestRecord("earlier")
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	former := strings.Replace(string(b), `"version":0`, `"version":1`, 1)
	former = strings.Replace(former, `"guest":`, `"attach":`, 1)
	path := filepath.Join(t.TempDir(), "box.json")
	if err := os.WriteFile(path, []byte(former), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readRecord(path)
	want.Version = recordVersion
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v, %v", got, want, err)
	}
}
