package image

import (
	"slices"

	"agentbox/agentbox"
)

// Received counts the bytes of an image that came from a member of the team or a remote. If both
// are "", it counts those of all that did not fit into maxReceived.
type Received struct {
	Peer   string `json:"peer,omitempty"`   // PeerID
	Remote string `json:"remote,omitempty"` // a directory or URL
	Bytes  int64  `json:"bytes"`            // of the image's file
}

// maxReceived is how many members and remotes are told apart.
const maxReceived = 64

func (r Received) same(other Received) bool { return r.Peer == other.Peer && r.Remote == other.Remote }

// AddReceived adds to a list, which it may change. The list keeps its order and its bound.
func AddReceived(list []Received, more ...Received) []Received {
	for _, r := range more {
		at := slices.IndexFunc(list, r.same)
		if at < 0 && len(list) >= maxReceived {
			r.Peer, r.Remote = "", ""
			at = slices.IndexFunc(list, r.same)
		}
		if at < 0 {
			list = append(list, r)
			continue
		}
		list[at].Bytes += r.Bytes
	}
	return list
}

// SetReceived stores from where the bytes of an image came.
func (s *Store) SetReceived(d agentbox.Digest, list []Received) error {
	return s.writeSidecar(d, imageReceivedName, list)
}

// Received returns the list of SetReceived, nil if it was never called or cannot be read.
func (s *Store) Received(d agentbox.Digest) []Received {
	return AddReceived(nil, beside[[]Received](s, d, imageReceivedName)...)
}
