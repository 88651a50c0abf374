package api

import (
	"time"

	"agentbox/agentbox"
)

// The calls about the store.
var (
	ListCache    = Endpoint[None, []CacheEntry]{"/v1/cache/list"}
	ShowCache    = Endpoint[CacheRef, CacheDetail]{"/v1/cache/show"}
	VerifyCache  = Endpoint[CacheVerifyRequest, CacheVerifyReport]{"/v1/cache/verify"}
	CollectCache = Endpoint[CacheGCRequest, CacheGCReport]{"/v1/cache/gc"}
	PinCache     = Endpoint[CacheRef, CacheEntry]{"/v1/cache/pin"}
	UnpinCache   = Endpoint[CacheRef, CacheEntry]{"/v1/cache/unpin"}
	ShareCache   = Endpoint[CacheShareRequest, CacheEntry]{"/v1/cache/share"}
	RemoveCache  = Endpoint[CacheRef, CacheEntry]{"/v1/cache/rm"}
	CacheQuota   = Endpoint[CacheQuotaRequest, CacheUsage]{"/v1/cache/quota"}
)

// CacheRef names a blob: by the digest of its manifest, the digest of the image that it is, the key
// of what setup made, NAMESPACE/KEY, a unique beginning of any digest among these, or the name of
// an image, the newest of that name.
type CacheRef struct {
	Ref string `json:"ref"`
}

// CacheShareRequest has a blob handed to the team's machines, or not.
type CacheShareRequest struct {
	Ref   string `json:"ref"`
	Share bool   `json:"share"`
}

// CacheEntry is a blob the store knows.
type CacheEntry struct {
	Manifest  agentbox.Digest `json:"manifest"`
	Kind      string          `json:"kind"`
	MediaType string          `json:"media_type,omitempty"`
	Size      int64           `json:"size"` // bytes
	// Stored counts the bytes that were written for it: what it shares with an older blob counts
	// there.
	Stored  int64        `json:"stored"`
	Created time.Time    `json:"created"`
	Used    time.Time    `json:"used"`
	Uses    int          `json:"uses"`
	Names   []CacheName  `json:"names,omitempty"`
	Pins    []string     `json:"pins,omitempty"`
	Alarms  []CacheAlarm `json:"alarms,omitempty"`
	Shared  bool         `json:"shared"` // a team's machines may have it from here
}

// CacheName is a key that stands for a blob. A name is signed by its Producer; of two names with
// the same namespace, key and scope one counts, and the other is an alarm.
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
	Chunks int             `json:"chunks"` // without those that are zeros
	Here   int             `json:"here"`
	Parent agentbox.Digest `json:"parent,omitzero"`
	Trace  int             `json:"trace"` // chunks a boot read first, in order
	// File: its bytes are a file that is attached to the store, and were not copied.
	File bool `json:"file"`
	// Why has what its key was computed from, one ingredient each, for what setup made.
	Why []string `json:"why,omitempty"`
}

// CacheAlarm is another result that somebody published under a name of an entry, and that was not
// taken. The same ingredients should have given the same bytes, so either something is not
// reproducible or somebody cheats.
type CacheAlarm struct {
	Name     string          `json:"name"` // NAMESPACE/KEY
	Manifest agentbox.Digest `json:"manifest"`
	Producer string          `json:"producer"` // public key, in hex
	Created  time.Time       `json:"created"`
}

// CacheVerifyRequest asks to read and hash everything. It takes as long as reading the store takes.
type CacheVerifyRequest struct {
	Rebuild bool `json:"rebuild,omitempty"` // also find again what the index has lost
	// From is a directory or URL that is asked for what is damaged, before the remotes that are
	// known.
	From string `json:"from,omitempty"`
}

// CacheVerifyReport is what was found.
type CacheVerifyReport struct {
	Chunks   int           `json:"chunks"`
	Bytes    int64         `json:"bytes"`
	Damaged  []CacheDamage `json:"damaged"`
	Repaired int           `json:"repaired"`
	Lost     int64         `json:"lost"` // entries of the index that were damaged themselves
	// Missing are named or pinned blobs that are not complete; a lazy image may be among them
	// rightfully.
	Missing []CacheLack   `json:"missing"`
	Took    time.Duration `json:"took"`
}

// CacheDamage is a chunk that is not what its digest says, and was put aside.
type CacheDamage struct {
	Digest agentbox.Digest `json:"digest"`
	File   string          `json:"file"`
	Offset int64           `json:"offset"`
	Why    string          `json:"why"`
	Found  time.Time       `json:"found"`
}

// CacheLack is a blob that lacks chunks; -1: its manifest.
type CacheLack struct {
	Manifest agentbox.Digest `json:"manifest"`
	Chunks   int             `json:"chunks"`
}

// CacheGCRequest asks to free space.
type CacheGCRequest struct {
	DryRun bool `json:"dry_run,omitempty"`
	// All frees everything that no name, pin or box keeps, not only what is above the quota.
	All bool `json:"all,omitempty"`
}

// CacheGCReport is what went, or would go.
type CacheGCReport struct {
	Items []PruneItem `json:"items"`
	Freed int64       `json:"freed"` // bytes on disk; an estimate in a dry run
	Young int         `json:"young"` // things that stay only because they are new
	// Over counts the bytes above the quota that stay all the same, because names, pins or boxes
	// keep them.
	Over int64 `json:"over"`
}

// CacheQuotaRequest changes bounds, in bytes; a bound of 0 is none. What is absent stays.
type CacheQuotaRequest struct {
	Total *int64           `json:"total,omitempty"`
	Kinds map[string]int64 `json:"kinds,omitempty"`
}

// CacheUsage is what the store takes and may take, in bytes. A quota of 0 is none.
type CacheUsage struct {
	Bytes      int64            `json:"bytes"`
	Kinds      map[string]int64 `json:"kinds"`
	Manifests  int              `json:"manifests"`
	Free       int64            `json:"free"` // of the disk
	Quota      int64            `json:"quota"`
	KindQuotas map[string]int64 `json:"kind_quotas,omitempty"`
}
