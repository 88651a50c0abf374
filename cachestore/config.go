package cachestore

import (
	"crypto/ed25519"
	"log/slog"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
)

// Config is what a Store needs. Only Dir must be set.
type Config struct {
	Dir string
	FS  disk.FS // nil: the operating system's

	// Trusted tells whether to believe what a producer of names says. nil: nobody but us (Key).
	Trusted func(producer ed25519.PublicKey) bool
	// Key signs the names that are made here. nil: names can be read and taken over, not made.
	Key ed25519.PrivateKey

	// Grace is how long gc leaves alone what is new and not yet named. 0: DefaultGrace. Negative:
	// none, for tests.
	Grace time.Duration
	// KeepFree is how many bytes of the disk the store leaves to others. 0: DefaultKeepFree.
	KeepFree int64
	// Ballast is how many bytes are set aside so that gc can work on a full disk. 0:
	// DefaultBallast. Negative: none.
	Ballast int64
	// Workers is how many chunks are hashed at once. 0: as many as there are CPUs.
	Workers int

	// Damaged is told of each damage when it is found; nil: nobody is. It must not call the Store's
	// methods that change anything.
	Damaged func(Damage)

	// Named is told that a name was written or is gone; nil: nobody is. It may neither wait nor
	// call the Store.
	Named func()

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: nothing is logged
}

// Defaults of Config.
const (
	DefaultGrace    = 10 * time.Minute
	DefaultKeepFree = 256 << 20
	DefaultBallast  = 64 << 20
)

// Quota bounds the bytes on disk. 0 is no bound.
type Quota struct {
	Total int64               `json:"total"`
	Kinds map[blob.Kind]int64 `json:"kinds,omitempty"`
}

// Usage is what the store takes.
type Usage struct {
	Bytes     int64               `json:"bytes"` // on disk, without the index
	Kinds     map[blob.Kind]int64 `json:"kinds"` // written for manifests of the kind; what several share counts for the first
	Manifests int                 `json:"manifests"`
	Free      int64               `json:"free"` // of the disk
	Quota     Quota               `json:"quota"`
}

// absent makes an error that says that something is not in the store.
func absent(format string, args ...any) *agentbox.Error {
	return agentbox.Errorf(agentbox.NotFound, format, args...)
}
