package cachestore

import (
	"log/slog"
	"testing"

	"agentbox/agentbox/durable"
	"agentbox/cachestore/blob"
)

func TestQuarantineSurvivesRestart(t *testing.T) {
	d, broken := blob.Sum([]byte("a")), blob.Sum([]byte("b"))
	open := func(from *quarantine) *quarantine {
		q := &quarantine{dir: from.dir, log: from.log}
		if err := q.load(); err != nil {
			t.Fatal(err)
		}
		return q
	}
	q := open(&quarantine{dir: newDir(t), log: slog.New(slog.DiscardHandler)})
	if err := q.add(Damage{Digest: d, File: "packs/1", Offset: 60, Why: "a bit"}); err != nil {
		t.Fatal(err)
	}
	// A record that cannot be read is damage all the same.
	if err := durable.WriteFile(q.path(quarantineDir, broken.Hex()), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	q = open(q)
	if list := q.damaged(); len(list) != 2 || q.known[d].Offset != 60 || q.known[broken].Digest != broken {
		t.Errorf("%+v", list)
	}
	q.repaired(d)
	q.forget(broken, "not needed any more")
	if list := open(q).damaged(); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}
