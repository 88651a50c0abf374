package layers

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/snapshot"
	"agentbox/cachestore"
)

// snapshotsOf keeps snapshots whose packs have the same bytes, as those of one workspace at two moments do.
func snapshotsOf(t *testing.T) (s Snapshots, store *cachestore.Store, put func(holder, of string) (StoredSnapshot, error)) {
	_, store = newResults(t)
	s = Snapshots{Store: func(context.Context) (*cachestore.Store, error) { return store, nil }}
	return s, store, func(holder, of string) (StoredSnapshot, error) {
		d := snapshot.Document{Version: 1, Project: "p", Whole: strings.Repeat("a", 40), Holder: holder}
		id, err := d.ID()
		if err != nil {
			return StoredSnapshot{}, err
		}
		out, _, err := s.Put(t.Context(), d, id, of, func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, "pack")
			return err
		})
		return out, err
	}
}

// What two keep is one snapshot for who looks, and stays until both have dropped it.
func TestHolders(t *testing.T) {
	s, _, put := snapshotsOf(t)
	for _, first := range []string{"", "t-1-a", "t-2-b"} {
		var kept []StoredSnapshot
		for _, holder := range []string{first, "", "t-1-a", "t-2-b"} {
			one, err := put(holder, "of "+holder)
			if err != nil {
				t.Fatal(err)
			}
			if holder != first || len(kept) == 0 {
				kept = append(kept, one)
			}
		}
		all, err := s.List(t.Context())
		if err != nil || len(all) != 1 || all[0].Comment != "of " {
			t.Fatalf("%+v, %v", all, err)
		}
		for i, one := range kept {
			if found, err := s.Find(t.Context(), one.ID.Hex()); err != nil || found.Bytes != 4 {
				t.Errorf("after %d were dropped: %+v, %v", i, found, err)
			}
			if err := s.Remove(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Find(t.Context(), kept[0].ID.Hex()); agentbox.CodeOf(err) != agentbox.NotFound {
			t.Errorf("all have dropped it: %v", err)
		}
	}
}

// Who keeps what another one drops at that moment has it.
func TestKeptWhileDropped(t *testing.T) {
	s, store, put := snapshotsOf(t)
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for turn := range 25 {
				one, err := put(fmt.Sprintf("t-%d-%d", n, turn), "")
				if err == nil {
					_, err = s.FindAll(t.Context(), one.Document.Key(one.ID))
				}
				if err == nil {
					_, err = readBlob(t.Context(), store, one.Work, nil, 100)
				}
				if err == nil {
					err = s.Remove(t.Context(), one)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
