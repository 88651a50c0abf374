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
	// Dir is the store's directory, which Open creates with mode 0700 if necessary. It should be on
	// the file system of the images that PutImageFile stores, because hard links cannot cross file
	// systems.
	Dir string
	// FS is the file system; nil for the operating system's. Tests use one that fails. The index
	// does not use it, because badger maps its files.
	FS disk.FS

	// Trusted reports whether to trust a producer of names; nil trusts only Key. It is called at
	// every lookup, not when a name is added, so that a revoked member's names stop counting at
	// once. It may be called from any goroutine with locks of the store held, so it must not call
	// the Store.
	Trusted func(producer ed25519.PublicKey) bool
	// Key signs the names that are published here. With nil, names can be read and added, but not
	// published.
	Key ed25519.PrivateKey

	// Grace is how long gc keeps what is new and has no root: between PutStream and Publish,
	// nothing else keeps a manifest. 0 means DefaultGrace. A negative value means none, for tests.
	Grace time.Duration
	// KeepFree is the number of bytes of the disk that the store leaves to others. 0 means
	// DefaultKeepFree.
	KeepFree int64
	// ReserveFile is the number of bytes reserved for gc on a full disk: freeing space requires
	// writes to the index. 0 means DefaultReserveFile. A negative value means none.
	ReserveFile int64

	// OnDamage is called with each damage when it is found, by the goroutine that found it; it may
	// be nil. It must not call methods of the Store that change anything.
	OnDamage func(Damage)

	// OnNameChange is called when a name was written or removed, even if that failed; it may be
	// nil. It is called with a lock held, so it must neither wait nor call the Store.
	OnNameChange func()

	// Now is the clock; nil for time.Now. It dates names, claims and uses, and so decides about
	// expiry, grace and the order of eviction. None of these can lose data that cannot be fetched
	// again.
	Now func() time.Time
	Log *slog.Logger // nil: nothing is logged
}

// Defaults of Config. The grace period must be longer than the longest pause between storing a blob
// and naming it. The free space is for the other programs of the host. The reserve file has to
// cover what badger needs for one gc; see minIndexSpace.
const (
	DefaultGrace       = 10 * time.Minute
	DefaultKeepFree    = 256 << 20
	DefaultReserveFile = 64 << 20
)

// Quota bounds the bytes on disk. 0 means no bound, and so does a missing kind. Manifests with
// roots and held ones are never evicted, so the store may exceed its quota; then nothing more can
// be written.
type Quota struct {
	Total int64               `json:"total"`
	Kinds map[blob.Kind]int64 `json:"kinds,omitempty"`
}

// Usage is the space that the store occupies. It is updated as files are written and freed, so it
// may differ by what the file system rounds; Open counts anew.
type Usage struct {
	Bytes     int64               `json:"bytes"` // on disk, without the index
	Kinds     map[blob.Kind]int64 `json:"kinds"` // what several manifests share counts for the first
	Manifests int                 `json:"manifests"`
	Free      int64               `json:"free"` // of the disk
	Quota     Quota               `json:"quota"`
}

// notFound makes an error of code NotFound.
func notFound(format string, args ...any) *agentbox.Error {
	return agentbox.Errorf(agentbox.NotFound, format, args...)
}
