package cachestore

import (
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

func FuzzPin(f *testing.F) {
	b, _ := Pin{Version: 1, Name: "box:1", Manifests: []agentbox.Digest{blob.Sum(nil)}}.encode()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := decodePin(b); err == nil && p.check() != nil {
			t.Fatalf("%+v", p)
		}
	})
}

func FuzzQuota(f *testing.F) {
	f.Add([]byte(`{"total":1,"kinds":{"image":2}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := decodeQuota(b); err == nil && q.check() != nil {
			t.Fatalf("%+v", q)
		}
	})
}
