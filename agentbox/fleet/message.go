package fleet

import (
	"encoding/json"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/wire"
)

// Service is that of questions about tasks, from workers to owners.
const Service wire.Service = "tasks-1"

// What a worker asks.
const (
	askClaim    = "claim"
	askManifest = "manifest"
	askExport   = "export" // digests follow, a line each
	askBeat     = "beat"
	askFinish   = "finish" // the transcript follows, then a pack
	askReturn   = "return" // the machine is needed by its owner
	askSave     = "save"   // a snapshot, whose pack follows
	askSecret   = "secret" // the present value of a secret that the task was granted
)

// Bounds of messages and of what follows them, in bytes.
const (
	maxMessage    = 5 << 20 // a snapshot has at most 4 MiB
	maxChunk      = 256 << 10
	MaxTranscript = 64 << 20
	maxText       = 2000
	maxModel      = 200
)

// question is what a worker asks. Fence is 0 in a claim.
type question struct {
	Do      string          `json:"do"`
	Task    agentbox.TaskID `json:"task"`
	Attempt int             `json:"attempt"`
	Fence   uint64          `json:"fence,omitempty"`

	// claim: another attempt like it is as welcome, but none of these tasks
	Alike  bool              `json:"alike,omitempty"`
	Except []agentbox.TaskID `json:"except,omitempty"`

	Offset int64  `json:"offset,omitempty"` // beat: of Chunk in what the command wrote
	Chunk  []byte `json:"chunk,omitempty"`

	Source   agentbox.Digest `json:"source,omitzero"`    // manifest, export: which one; zero is the task's
	Document json.RawMessage `json:"document,omitempty"` // save

	Secret string `json:"secret,omitempty"` // its name

	Result     *agentbox.Result `json:"result,omitempty"`     // finish
	Transcript int64            `json:"transcript,omitempty"` // finish: bytes that follow
}

// answer is what an owner says. Stop tells the worker to end the attempt and to forget it.
type answer struct {
	Stop  string             `json:"stop,omitempty"`
	Fence uint64             `json:"fence,omitempty"`
	Spec  *agentbox.TaskSpec `json:"spec,omitempty"`
	// claim: which one it is; zero, of an earlier build, is the one that was asked for
	Task    agentbox.TaskID `json:"task,omitzero"`
	Attempt int             `json:"attempt,omitempty"`
	Loan    json.RawMessage `json:"loan,omitempty"`   // claim: policy.Loan
	Value   string          `json:"value,omitempty"`  // secret
	Error   string          `json:"error,omitempty"`  // secret: why there is no value
	Offset  int64           `json:"offset,omitempty"` // beat: what the owner has
	// beat: in how many seconds the next one is early enough; 0: as soon as the worker likes
	Next int `json:"next,omitempty"`
}

// Reasons to stop.
const (
	stopStale     = "stale"     // it is not, or no longer, this worker's
	stopCancelled = "cancelled" // end it, and finish
	stopRefused   = "refused"   // what was sent makes no sense
)

// next is how long a worker waits with its next beat.
func (a answer) next() time.Duration {
	return min(max(time.Duration(a.Next)*time.Second, beatEvery), beatLeast)
}
