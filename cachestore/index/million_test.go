package index

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"agentbox/cachestore/blob"
)

// TestMillionChunksFitInMemory fills the index with a million chunks and their fingerprints, looks
// each of them up, and checks the memory of the process. It takes a minute, so it runs only with
// AGENTBOX_LARGE=1.
func TestMillionChunksFitInMemory(t *testing.T) {
	if os.Getenv("AGENTBOX_LARGE") == "" {
		t.Skip("AGENTBOX_LARGE is not set")
	}
	dir := t.TempDir()
	x := open(t, dir)
	const n = 1_000_000
	for i := 0; i < n; i += 10 * batchKeys {
		var b Batch
		for j := i; j < i+10*batchKeys; j++ {
			b.SetChunk(digest(j), Location{File: uint64(j), Off: int64(j), Stored: 1, Size: 2})
			b.SetFingerprint(fingerprint(j), digest(j))
		}
		if err := x.Apply(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, dir)
	for i := range n {
		if _, ok, err := x.Chunk(digest(i)); !ok || err != nil {
			t.Fatalf("chunk %d: %v, %v", i, ok, err)
		}
		if d, ok, err := x.LookupFingerprint(fingerprint(i)); !ok || d != digest(i) || err != nil {
			t.Fatalf("fingerprint %d: %v, %v", i, ok, err)
		}
	}
	runtime.GC()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("there is no /proc")
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			t.Logf("%d MiB resident", kb>>10)
			if kb > 256<<10 {
				t.Errorf("a million chunks take %d MiB", kb>>10)
			}
		}
	}
}

// fingerprint returns one as random as real ones.
func fingerprint(i int) blob.Fingerprint {
	d := digest(i)
	return blob.Fingerprint(d[16:])
}
