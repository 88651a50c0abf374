package cachestore

import (
	"crypto/ed25519"
	"log/slog"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
)

// Config is what a Store needs. Only Dir must be set. It is read once, by Open; changing it later
// has no effect.
type Config struct {
	// Dir is the store's directory, made with mode 0700 when there is none. It should be on the
	// file system of the images that PutImageFile takes in: links cross no boundary of file
	// systems.
	Dir string
	// FS is what the files are on; nil: the operating system's. Tests put a disk that fails in its
	// place. The index does not go through it: badger maps its files.
	FS disk.FS

	// Trusted reports whether to believe what a producer of names says. nil: nobody but us (Key).
	// It is asked at every lookup, not when the name is taken, so that a revoked member's names
	// stop to count at once. It may be called from any goroutine, with locks of the store held, so
	// it must not call the Store.
	Trusted func(producer ed25519.PublicKey) bool
	// Key signs the names that are made here. nil: names can be read and taken over, not made.
	Key ed25519.PrivateKey

	// Grace is how long gc leaves alone what is new and not yet named: between PutStream and
	// Publish nothing else keeps a manifest. 0: DefaultGrace. Negative: none, for tests.
	Grace time.Duration
	// KeepFree is how many bytes of the disk the store leaves to others. 0: DefaultKeepFree.
	KeepFree int64
	// Ballast is how many bytes are set aside so that gc can work on a full disk: to free space the
	// index has to be written, for which there would be none. 0: DefaultBallast. Negative: none.
	Ballast int64

	// Damaged is told of each damage when it is found, by the goroutine that found it; nil: nobody
	// is. It must not call the Store's methods that change anything.
	Damaged func(Damage)

	// Named is told that a name was written or is gone, also when that failed; nil: nobody is. It
	// is called with a lock held, so it may neither wait nor call the Store.
	Named func()

	// Now is the clock; nil: time.Now. It dates names, claims and uses, and so decides expiry,
	// grace and the order of eviction, none of which can lose what cannot be got again.
	Now func() time.Time
	Log *slog.Logger // nil: nothing is logged
}

// Defaults of Config. The grace must outlast the longest pause between storing a blob and naming
// it; the free space is for what else the host does; the ballast has to cover what badger needs for
// one gc, see indexRoom.
const (
	DefaultGrace    = 10 * time.Minute
	DefaultKeepFree = 256 << 20
	DefaultBallast  = 64 << 20
)

// Quota bounds the bytes on disk. 0 is no bound. Kinds that are not in the map have none of their
// own. What is kept by roots or held is never evicted, so the store may be above its quota; then
// nothing more can be written.
type Quota struct {
	Total int64               `json:"total"`
	Kinds map[blob.Kind]int64 `json:"kinds,omitempty"`
}

// Usage is what the store takes. It is kept by adding up as files are written and freed, so it may
// be off by what the file system rounds; Open counts anew.
type Usage struct {
	Bytes     int64               `json:"bytes"` // on disk, without the index
	Kinds     map[blob.Kind]int64 `json:"kinds"` // written for manifests of the kind; what several share counts for the first
	Manifests int                 `json:"manifests"`
	Free      int64               `json:"free"` // of the disk
	Quota     Quota               `json:"quota"`
}

// absent makes an error of code NotFound: something is not in the store.
func absent(format string, args ...any) *agentbox.Error {
	return agentbox.Errorf(agentbox.NotFound, format, args...)
}
