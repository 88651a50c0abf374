package cachestore

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/disk"
)

// Damage is a chunk whose bytes did not match its digest. It is not in the index, so its users have
// to get it again. It is kept in a file until the chunk is in the store again or nothing needs it,
// so that a person learns of it, and of the failing disk, even after a restart. The bytes
// themselves are not kept.
type Damage struct {
	Digest agentbox.Digest `json:"digest"`
	// File is a path relative to the store's directory; Offset and Bytes say where in it, in bytes
	// as they lie there.
	File   string          `json:"file"`
	Offset int64           `json:"offset"`
	Bytes  int64           `json:"bytes"`
	Image  uint64          `json:"image,omitempty"` // number of the image file whose block it is
	Of     agentbox.Digest `json:"of,omitzero"`     // the image's manifest
	// Why is what was wrong, in one line, and Found when.
	Why   string    `json:"why"`
	Found time.Time `json:"found"`
}

// quarantine is the list of damaged chunks, with a file for each in quarantine/. It is in memory as
// well, so that a flush does not look for a file for each new chunk.
type quarantine struct {
	dir
	log   *slog.Logger
	mu    sync.Mutex
	known map[agentbox.Digest]Damage
}

// maxDamageFile bounds a file in quarantine/ when it is read.
const maxDamageFile = 16 << 10

func (q *quarantine) add(dmg Damage) error {
	b, err := dmg.encode()
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.known[dmg.Digest] = dmg
	return q.hostError(disk.Replace(q.fs, q.path(quarantineDir, dmg.Digest.Hex()), b))
}

// repaired ends the quarantine of a chunk that was claimed again, if it is in quarantine.
func (q *quarantine) repaired(d agentbox.Digest) { q.forget(d, "repaired") }

// forget ends the quarantine of a chunk, and logs why. If the file cannot be removed, the next
// process finds the chunk in quarantine again, so this is only logged.
func (q *quarantine) forget(d agentbox.Digest, why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.known[d]; !ok {
		return
	}
	delete(q.known, d)
	if err := q.fs.Remove(q.path(quarantineDir, d.Hex())); err != nil {
		q.log.Warn("store: "+why+", but still in quarantine", "chunk", d.Short(), "error", err)
		return
	}
	q.log.Info("store: "+why, "chunk", d.Short())
}

// damaged returns the damage that is not repaired yet, in any order.
func (q *quarantine) damaged() []Damage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.AppendSeq([]Damage{}, maps.Values(q.known))
}

// load reads the records of earlier processes. It skips files that are not ours.
func (q *quarantine) load() error {
	q.known = map[agentbox.Digest]Damage{}
	names, err := q.list(quarantineDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := disk.ReadFile(q.fs, q.path(quarantineDir, name), maxDamageFile)
		if err != nil {
			return q.hostError(err)
		}
		d, err := agentbox.ParseDigest("sha256:" + name)
		if err != nil {
			continue // not ours
		}
		q.known[d] = decodeDamage(b, d)
	}
	return nil
}

func (dmg Damage) encode() ([]byte, error) {
	b, err := json.MarshalIndent(dmg, "", "  ")
	return append(b, '\n'), err
}

// decodeDamage reads the record of a chunk's damage. If it cannot be read the chunk counts as
// damaged all the same.
func decodeDamage(b []byte, d agentbox.Digest) Damage {
	var dmg Damage
	if json.Unmarshal(b, &dmg) != nil || dmg.Digest != d || dmg.Offset < 0 || dmg.Bytes < 0 {
		return Damage{Digest: d, Why: "the record of the damage is damaged too"}
	}
	return dmg
}
