package layers

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange"
)

// Remotes remembers where images came from and went to, directories and URLs, the newest first: a
// piece that is damaged here may still be intact there. Its methods may be called at once. It is a
// history, not a configuration: a wrong remote costs time and nothing else, as pieces are verified.
type Remotes struct {
	File string // holds the list
	// Peers returns this machine's part in the mesh, which is asked before any remote; nil, or one
	// that returns nil, without a mesh.
	Peers func() *exchange.Node

	// mu guards what follows.
	mu      sync.Mutex
	read    bool
	list    []string
	retryAt map[string]time.Time // remotes that failed, and when they are asked again
}

const (
	// Each remote that does not answer costs its timeout once in a minute, so neither may be large.
	maxRemotes = 16
	retryDelay = time.Minute
)

// remotesFile is what File holds.
type remotesFile struct {
	Version int      `json:"version"`
	Remotes []string `json:"places"`
}

// remotesVersion is of File, whose key "places" is older than the word remote.
const remotesVersion = 1

// Remember puts a remote first in the list. Beyond maxRemotes the oldest is forgotten. A remote
// that is first already costs no write. Team is not remembered: peers are always asked.
func (r *Remotes) Remember(remote string) error {
	if remote == Team {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.load()
	if len(r.list) > 0 && r.list[0] == remote {
		return nil
	}
	list := append([]string{remote}, slices.DeleteFunc(slices.Clone(r.list), func(other string) bool { return other == remote })...)
	list = list[:min(len(list), maxRemotes)]
	b, err := encode(remotesFile{remotesVersion, list})
	if err != nil {
		return err
	}
	r.list = list
	return durable.WriteFile(r.File, b, 0o600)
}

// load reads the list once. One that cannot be read is none. Callers hold mu.
func (r *Remotes) load() {
	if r.read {
		return
	}
	r.read, r.retryAt = true, map[string]time.Time{}
	if b, err := os.ReadFile(r.File); err == nil {
		r.list = decodeRemotes(b)
	}
}

// decodeRemotes returns an empty list for a file that cannot be read, or is of another version.
func decodeRemotes(b []byte) []string {
	var f remotesFile
	if json.Unmarshal(b, &f) != nil || f.Version != remotesVersion {
		return nil
	}
	return f.Remotes[:min(len(f.Remotes), maxRemotes)]
}

// Source asks the remotes in first, and then the others, until one has a piece with the right
// bytes. When none has it, the error is that of the remote that was asked first. first are remotes
// as Remember takes them; Team among them means nothing, as peers come first in any case.
func (r *Remotes) Source(first ...string) cachestore.Source {
	return peerSource{remotes: r, first: first}
}

// counted is Source, which adds up from whom chunks come.
func (r *Remotes) counted(to *receivedBytes, first ...string) cachestore.Source {
	return peerSource{remotes: r, first: first, received: to}
}

// peerSource is the Source of one fetch, and may be used by many goroutines.
type peerSource struct {
	remotes  *Remotes
	first    []string
	received *receivedBytes // nil: nobody asks from whom it came
}

// Get returns a piece. Peers give manifests only: of a chunk they want to know which manifest it is
// of. max is the most bytes that the piece can have: a manifest is recognized by it.
func (p peerSource) Get(ctx context.Context, d agentbox.Digest, max int) ([]byte, error) {
	if p.remotes.peers() == nil || max < blob.MaxManifest {
		b, _, err := p.fromRemotes(ctx, d, max)
		return b, err
	}
	// Peers first: they are near, and cost nobody's bandwidth outside.
	b, err := p.manifest(ctx, d)
	if err == nil || ctx.Err() != nil || len(p.remotes.order(p.first)) == 0 {
		return b, err
	}
	b, _, err = p.fromRemotes(ctx, d, max)
	return b, err
}

// fromRemotes returns a piece, and who had it. Each is asked once, one after the other.
func (p peerSource) fromRemotes(ctx context.Context, d agentbox.Digest, max int) (b []byte, remote string, err error) {
	var first error
	for _, remote := range p.remotes.order(p.first) {
		b, err := getFrom(ctx, remote, d, max)
		if err == nil {
			return b, remote, nil
		}
		p.remotes.failed(remote, err)
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if first == nil {
		return nil, "", agentbox.Errorf(agentbox.NotFound, "nobody is known who has %s", d.Short())
	}
	return nil, "", first
}

// getFrom asks one remote, and believes nothing that has another digest.
func getFrom(ctx context.Context, remote string, d agentbox.Digest, max int) ([]byte, error) {
	src, err := openSource(remote)
	if err != nil {
		return nil, err
	}
	b, err := src.Get(ctx, d, max)
	if err == nil && blob.Check(d, b) != nil {
		err = agentbox.Errorf(agentbox.Corrupt, "%s has wrong bytes for %s", remote, d.Short())
	}
	return b, err
}

// order lists whom to ask: those in first always, the others unless they failed a moment ago.
func (r *Remotes) order(first []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.load()
	out := slices.DeleteFunc(slices.Clone(first), func(remote string) bool { return remote == Team })
	for _, remote := range r.list {
		if !slices.Contains(first, remote) && time.Now().After(r.retryAt[remote]) {
			out = append(out, remote)
		}
	}
	return out
}

// Any reports whether a remote is known that answers, as far as was seen.
func (r *Remotes) Any() bool { return len(r.order(nil)) > 0 }

// failed backs off from a remote that does not answer, not from one that only lacks the piece.
func (r *Remotes) failed(remote string, err error) {
	if code := agentbox.CodeOf(err); code == agentbox.NotFound || code == agentbox.Corrupt || errors.Is(err, fs.ErrNotExist) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retryAt[remote] = time.Now().Add(retryDelay)
}
