package layers

import (
	"context"
	"io"
	"slices"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore"
)

// What a copy consists of stays as long as the copy, and nothing else of it does.
func TestKeepCopy(t *testing.T) {
	_, store := newResults(t)
	s := Snapshots{Store: func(context.Context) (*cachestore.Store, error) { return store, nil }}
	put := func(commit string) agentbox.Digest {
		d, err := s.History(t.Context(), commit, false, func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, commit)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a, b, c := put("a"), put("b"), put("c")
	kept := func() (all []agentbox.Digest) {
		names, err := store.Names(snapshotNamespace, copyPrefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			all = append(all, n.Manifest)
		}
		return all
	}
	for _, manifests := range [][]agentbox.Digest{{a, b}, {b, c}} {
		if err := s.KeepCopy(t.Context(), "t-1@x", manifests...); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.KeepCopy(t.Context(), "t-2@x", c); err != nil {
		t.Fatal(err)
	}
	if all := kept(); len(all) != 3 || slices.Contains(all, a) {
		t.Errorf("%v", all)
	}
	if keys, err := s.Copies(t.Context()); err != nil || !slices.Equal(keys, []string{"t-1@x", "t-2@x"}) {
		t.Errorf("%v, %v", keys, err)
	}
	if err := s.DropCopy(t.Context(), "t-1@x"); err != nil {
		t.Fatal(err)
	}
	if all := kept(); !slices.Equal(all, []agentbox.Digest{c}) {
		t.Errorf("%v", all)
	}
}

// The history for a machine that has some of it is made anew, and never taken for all of it.
func TestHistory(t *testing.T) {
	_, store := newResults(t)
	s := Snapshots{Store: func(context.Context) (*cachestore.Store, error) { return store, nil }}
	made := 0
	put := func(rest bool, content string) agentbox.Digest {
		t.Helper()
		d, err := s.History(t.Context(), "c", rest, func(_ context.Context, w io.Writer) error {
			made++
			_, err := io.WriteString(w, content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	some := put(true, "some")
	all := put(false, "all of it")
	if other := put(true, "other"); some == all || other == some || other == all || made != 3 {
		t.Errorf("%s, %s, %s, made %d times", some, all, other, made)
	}
	if again := put(false, "not asked for"); again != all || made != 3 {
		t.Errorf("%s is another one than %s, made %d times", again, all, made)
	}
}
