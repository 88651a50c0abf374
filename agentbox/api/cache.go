package api

import (
	"time"

	"agentbox/agentbox"
)

// The calls about the store.
var (
	// ListCache returns all blobs with their alarms.
	ListCache = Endpoint[None, []CacheEntry]{"/v1/cache/list"}
	// ShowCache returns one entry in detail.
	ShowCache = Endpoint[CacheRef, CacheDetail]{"/v1/cache/show"}
	// VerifyCache reads and hashes the whole store, and fetches damaged chunks again.
	VerifyCache = Endpoint[CacheVerifyRequest, CacheVerifyReport]{"/v1/cache/verify"}
	// CollectCache frees space.
	CollectCache = Endpoint[CacheGCRequest, CacheGCReport]{"/v1/cache/gc"}
	// PinCache keeps an entry until UnpinCache. It is idempotent.
	PinCache = Endpoint[CacheRef, CacheEntry]{"/v1/cache/pin"}
	// UnpinCache removes the pin of PinCache, and no other.
	UnpinCache = Endpoint[CacheRef, CacheEntry]{"/v1/cache/unpin"}
	// ShareCache sets whether the team may fetch an entry from here. Existing copies stay.
	ShareCache = Endpoint[CacheShareRequest, CacheEntry]{"/v1/cache/share"}
	// RemoveCache removes an entry with its names and alarms.
	RemoveCache = Endpoint[CacheRef, CacheEntry]{"/v1/cache/remove"}
	// DropBranch removes the setup results that only a branch of a checkout's project reads.
	DropBranch = Endpoint[BranchRef, []CacheEntry]{"/v1/cache/branch/drop"}
	// CacheQuota changes quotas and returns the resulting usage.
	CacheQuota = Endpoint[CacheQuotaRequest, CacheUsage]{"/v1/cache/quota"}
)

// CacheRef names a blob by one of these: the digest of its manifest, the digest of the image that
// it contains, the key of a setup result, NAMESPACE/KEY, or a unique prefix of any digest among
// these. It may also be the name of an image, which means the newest with that name.
type CacheRef struct {
	Ref string `json:"ref"`
}

// BranchRef names a branch of the project of a checkout.
type BranchRef struct {
	Directory string `json:"directory"`
	Branch    string `json:"branch"`
}

// CacheShareRequest shares a blob with the machines of the team, or stops sharing it.
type CacheShareRequest struct {
	Ref   string `json:"ref"`
	Share bool   `json:"share"`
}

// CacheEntry is a blob that the store knows.
type CacheEntry struct {
	Manifest  agentbox.Digest `json:"manifest"`
	Kind      string          `json:"kind"`
	MediaType string          `json:"media_type,omitempty"`
	Size      int64           `json:"size"` // bytes
	// Stored counts the bytes written for this blob. Bytes that it shares with an older blob count
	// there.
	Stored  int64        `json:"stored"`
	Created time.Time    `json:"created"`
	Used    time.Time    `json:"used"`
	Uses    int          `json:"uses"`
	Names   []CacheName  `json:"names,omitempty"`
	Pins    []string     `json:"pins,omitempty"`
	Alarms  []CacheAlarm `json:"alarms,omitempty"`
	Shared  bool         `json:"shared"` // the team's machines may fetch it from here
}

// CacheName maps a key to a blob. Its Producer signs it. Of two names with the same namespace, key
// and scope, one counts and the other raises an alarm.
type CacheName struct {
	Namespace string    `json:"namespace"`
	Key       string    `json:"key"`
	Producer  string    `json:"producer"` // hexadecimal public key
	Scope     string    `json:"scope"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero"`
	Comment   string    `json:"comment,omitempty"`
}

// CacheDetail is an entry and how much of it is here.
type CacheDetail struct {
	CacheEntry
	Chunks  int             `json:"chunks"` // without all-zero chunks
	Present int             `json:"present"`
	Parent  agentbox.Digest `json:"parent,omitzero"`
	Trace   int             `json:"trace"` // chunks that a boot reads first, in order
	// File means that the bytes are in a file attached to the store, and were not copied.
	File bool `json:"file"`
	// Ingredients lists what the key of a setup result was computed from.
	Ingredients []string `json:"ingredients,omitempty"`
}

// CacheAlarm is a different result that somebody published under the name of an entry, and that the
// store refused. The same ingredients should give the same bytes, so either the setup is not
// reproducible or the publisher cheats.
type CacheAlarm struct {
	Name     string          `json:"name"` // NAMESPACE/KEY
	Manifest agentbox.Digest `json:"manifest"`
	Producer string          `json:"producer"` // public key, in hex
	Created  time.Time       `json:"created"`
}

// CacheVerifyRequest reads and hashes the whole store. The call takes as long as reading it takes.
type CacheVerifyRequest struct {
	Rebuild bool `json:"rebuild,omitempty"` // also find what the index has lost
	// From is a directory or URL to fetch damaged bytes from, before the known remotes.
	From string `json:"from,omitempty"`
}

// CacheVerifyReport is the result of a verification.
type CacheVerifyReport struct {
	Chunks   int           `json:"chunks"`
	Bytes    int64         `json:"bytes"`
	Damaged  []CacheDamage `json:"damaged"`
	Repaired int           `json:"repaired"`
	Lost     int64         `json:"lost"` // index entries that were damaged themselves
	// Missing lists named or pinned blobs that are incomplete. For a lazy image this is no error.
	Missing []CacheIncomplete `json:"missing"`
	Took    time.Duration     `json:"took"`
}

// CacheDamage is a chunk that does not match its digest and was set aside.
type CacheDamage struct {
	Digest agentbox.Digest `json:"digest"`
	File   string          `json:"file"`
	Offset int64           `json:"offset"`
	Reason string          `json:"reason"`
	Found  time.Time       `json:"found"`
}

// CacheIncomplete is a blob that lacks chunks. Chunks is -1 if it lacks its manifest.
type CacheIncomplete struct {
	Manifest agentbox.Digest `json:"manifest"`
	Chunks   int             `json:"chunks"`
}

// CacheGCRequest frees space.
type CacheGCRequest struct {
	DryRun bool `json:"dry_run,omitempty"`
	// All frees everything that no name, pin or box keeps, even below the quota.
	All bool `json:"all,omitempty"`
}

// CacheGCReport is what was removed, or would be.
type CacheGCReport struct {
	Items  []PruneItem `json:"items"`
	Freed  int64       `json:"freed"`  // bytes on disk; an estimate in a dry run
	Recent int         `json:"recent"` // objects kept only because they are new
	// OverQuota counts the bytes above the quota that could not be freed, because names, pins or boxes
	// keep them.
	OverQuota int64 `json:"over_quota"`
}

// CacheQuotaRequest changes quotas, in bytes. 0 removes a quota; absent fields change nothing.
type CacheQuotaRequest struct {
	Total *int64           `json:"total,omitempty"`
	Kinds map[string]int64 `json:"kinds,omitempty"`
}

// CacheUsage is what the store uses and may use, in bytes. A quota of 0 means none.
type CacheUsage struct {
	Bytes      int64            `json:"bytes"`
	Kinds      map[string]int64 `json:"kinds"`
	Manifests  int              `json:"manifests"`
	Free       int64            `json:"free"` // of the disk
	Quota      int64            `json:"quota"`
	KindQuotas map[string]int64 `json:"kind_quotas,omitempty"`
}
