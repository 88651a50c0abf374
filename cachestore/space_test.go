package cachestore

import (
	"context"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// TestReservationsCountAgainstTheQuota has two writers that would each fit, and not both.
func TestReservationsCountAgainstTheQuota(t *testing.T) {
	evicted := int64(0)
	p := &space{dir: newDir(t), collecting: func() bool { return false }}
	p.evict = func(_ context.Context, need int64, _ blob.Kind) error { evicted += need; return nil }
	if err := p.load(); err != nil {
		t.Fatal(err)
	}
	if err := p.set(Quota{Total: 100, Kinds: map[blob.Kind]int64{blob.Cache: 50}}); err != nil {
		t.Fatal(err)
	}
	if err := p.reserve(t.Context(), blob.Image, 60); err != nil {
		t.Fatal(err)
	}
	if err := p.reserve(t.Context(), blob.Image, 60); agentbox.CodeOf(err) != agentbox.NoSpace || evicted != 60 {
		t.Errorf("both found room: %v, %d bytes were asked of gc", err, evicted)
	}
	p.release(60)
	if err := p.reserve(t.Context(), blob.Cache, 60); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("a kind is above its quota: %v", err)
	}
	again := &space{dir: p.dir}
	if err := again.load(); err != nil || again.quota.Total != 100 || again.quota.Kinds[blob.Cache] != 50 {
		t.Errorf("%+v, %v", again.quota, err)
	}
	if err := p.set(Quota{Total: -1}); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("a quota of -1: %v", err)
	}
}
