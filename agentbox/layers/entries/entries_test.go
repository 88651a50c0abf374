package entries

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/layers"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
)

// withStore gives the entries of a store of its own.
func withStore(t *testing.T, dir string) Entries {
	t.Helper()
	h, log := home.Home{Dir: dir}, slog.New(slog.DiscardHandler)
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	key, err := layers.SigningKey(h.StoreKey())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	opening := layers.OpenAsync(ctx, cachestore.Config{Dir: h.Store(), Key: key, Log: log}, nil)
	es := Entries{Store: opening.Store, Sharing: &layers.Sharing{Store: opening.Store, File: h.Shared()}, Remotes: &layers.Remotes{File: h.Remotes()}}
	scrubbed := make(chan struct{})
	go func() {
		defer close(scrubbed)
		if s, err := opening.Store(ctx); err == nil {
			s.Scrub(ctx, es.Remotes.Source())
		}
	}()
	t.Cleanup(func() {
		stop()
		<-scrubbed
		if err := opening.Close(); err != nil {
			t.Error(err)
		}
	})
	return es
}

func put(t *testing.T, d Entries, b []byte, name string) agentbox.Digest {
	t.Helper()
	s, err := d.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.PutImage(t.Context(), bytes.NewReader(b), int64(len(b)), blob.Info{Kind: blob.Cache})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Publish(t.Context(), blob.Name{Namespace: "cache", Key: name, Manifest: st.Manifest, Scope: blob.Local}); err != nil {
		t.Fatal(err)
	}
	return st.Manifest
}

func TestStoreThroughAPI(t *testing.T) {
	dir := t.TempDir()
	d := withStore(t, dir)
	m := put(t, d, bytes.Repeat([]byte("agentbox"), 200<<10), "deps")
	list, err := d.List(t.Context(), api.None{}, nil)
	if err != nil || len(list) != 1 || list[0].Manifest != m || len(list[0].Names) != 1 || list[0].Names[0].Key != "deps" {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, ref := range []string{m.Short(), m.String(), "cache/deps"} {
		e, err := d.Show(t.Context(), api.CacheRef{Ref: ref}, nil)
		if err != nil || e.Manifest != m || e.Present != e.Chunks || e.Present == 0 {
			t.Fatalf("%s: %+v, %v", ref, e, err)
		}
	}
	if _, err := d.Show(t.Context(), api.CacheRef{Ref: "nothing"}, nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Fatal(err)
	}
	e, err := d.Pin(t.Context(), api.CacheRef{Ref: "cache/deps"}, nil)
	if err != nil || len(e.Pins) != 1 {
		t.Fatalf("%+v, %v", e, err)
	}
	if e, err = d.Unpin(t.Context(), api.CacheRef{Ref: m.Short()}, nil); err != nil || len(e.Pins) != 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	for _, share := range []bool{true, false} {
		if e, err = d.Share(t.Context(), api.CacheShareRequest{Ref: "cache/deps", Share: share}, nil); err != nil || e.Shared != share {
			t.Fatalf("share %v: %+v, %v", share, e, err)
		}
		if list, err := d.List(t.Context(), api.None{}, nil); err != nil || list[0].Shared != share {
			t.Fatalf("%+v, %v", list, err)
		}
	}
	total := int64(1 << 30)
	u, err := d.Quota(t.Context(), api.CacheQuotaRequest{Total: &total, Kinds: map[string]int64{"cache": 5 << 20}}, nil)
	if err != nil || u.Quota != total || u.KindQuotas["cache"] != 5<<20 || u.Bytes == 0 || u.Kinds["cache"] == 0 {
		t.Fatalf("%+v, %v", u, err)
	}
	if u, err = d.Quota(t.Context(), api.CacheQuotaRequest{Kinds: map[string]int64{"cache": 0}}, nil); err != nil || len(u.KindQuotas) != 0 || u.Quota != total {
		t.Fatalf("%+v, %v", u, err)
	}
	if _, err = d.Quota(t.Context(), api.CacheQuotaRequest{Kinds: map[string]int64{"books": 1}}, nil); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Fatal(err)
	}
	r, err := d.Collect(t.Context(), api.CacheGCRequest{All: true, DryRun: true}, nil)
	if err != nil || len(r.Items) != 0 {
		t.Fatalf("what is named goes: %+v, %v", r, err)
	}
	if _, err = d.Quota(t.Context(), api.CacheQuotaRequest{Total: new(int64(1 << 10))}, nil); err != nil {
		t.Fatal(err)
	}
	if r, err = d.Collect(t.Context(), api.CacheGCRequest{DryRun: true}, nil); err != nil || r.OverQuota <= 0 {
		t.Fatalf("nobody is told that it is too much: %+v, %v", r, err)
	}
}

func TestConflictingResultsAreShown(t *testing.T) {
	d := withStore(t, t.TempDir())
	kept := put(t, d, bytes.Repeat([]byte("agentbox"), 1<<10), "deps")
	s, err := d.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lost := put(t, d, bytes.Repeat([]byte("otherbox"), 1<<10), "others")
	n := blob.Name{Namespace: "cache", Key: "deps", Manifest: lost, Scope: blob.Local}
	if _, err := s.Publish(t.Context(), n); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Fatalf("published twice: %v", err)
	}
	e, err := d.Show(t.Context(), api.CacheRef{Ref: "cache/deps"}, nil)
	if err != nil || e.Manifest != kept || len(e.Alarms) != 1 || e.Alarms[0].Manifest != lost || e.Alarms[0].Name != "cache/deps" {
		t.Fatalf("%+v, %v", e, err)
	}
	if e, err = d.Show(t.Context(), api.CacheRef{Ref: "cache/others"}, nil); err != nil || len(e.Alarms) != 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	if list, err := d.List(t.Context(), api.None{}, nil); err != nil || len(list) != 2 || len(list[0].Alarms)+len(list[1].Alarms) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := d.Check(t.Context()); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Fatalf("doctor: %v", err)
	}
	// The alarm ends with the entry, and both results are gone.
	if _, err := d.Pin(t.Context(), api.CacheRef{Ref: "cache/deps"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Remove(t.Context(), api.CacheRef{Ref: "cache/deps"}, nil); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Fatalf("a pinned entry was removed: %v", err)
	}
	if _, err := d.Unpin(t.Context(), api.CacheRef{Ref: "cache/deps"}, nil); err != nil {
		t.Fatal(err)
	}
	if removed, err := d.Remove(t.Context(), api.CacheRef{Ref: "cache/deps"}, nil); err != nil || removed.Manifest != kept {
		t.Fatalf("%+v, %v", removed, err)
	}
	if _, err := d.Show(t.Context(), api.CacheRef{Ref: kept.String()}, nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Fatalf("removed, and %v", err)
	}
	if _, err := d.Check(t.Context()); err != nil {
		t.Fatalf("doctor: %v", err)
	}
}

func TestVerifyAndDoctorReportDamage(t *testing.T) {
	dir := t.TempDir()
	d := withStore(t, dir)
	m := put(t, d, bytes.Repeat([]byte("agentbox"), 1<<10), "deps")
	elsewhere := t.TempDir()
	if s, err := d.Store(t.Context()); err != nil {
		t.Fatal(err)
	} else if err := s.Export(t.Context(), m, elsewhere, nil); err != nil {
		t.Fatal(err)
	}
	if detail, err := d.Check(t.Context()); err != nil || detail == "" {
		t.Fatal(err)
	}
	images, _ := filepath.Glob(filepath.Join(dir, "store", "images", "*"))
	f, err := os.OpenFile(images[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("X"), 100); err != nil {
		t.Fatal(err)
	}
	f.Close()
	r, err := d.Verify(t.Context(), api.CacheVerifyRequest{}, nil)
	if err != nil || len(r.Damaged) != 1 || len(r.Missing) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := d.Check(t.Context()); agentbox.CodeOf(err) != agentbox.Corrupt || agentbox.AsError(err).Hint == "" {
		t.Fatalf("doctor: %v", err)
	}
	r, err = d.Verify(t.Context(), api.CacheVerifyRequest{From: elsewhere}, nil)
	if err != nil || len(r.Damaged) != 0 || r.Repaired != 1 || len(r.Missing) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := d.Check(t.Context()); err != nil {
		t.Fatalf("doctor: %v", err)
	}
}
