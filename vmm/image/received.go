package image

import (
	"slices"

	"agentbox/agentbox"
)

// Received says that bytes of an image came from somewhere: a member of the team, or a remote. With
// neither it is the sum of those that are more than maxReceived.
type Received struct {
	Peer   string `json:"peer,omitempty"`   // PeerID
	Remote string `json:"remote,omitempty"` // a directory or URL
	Bytes  int64  `json:"bytes"`            // of the image's file
}

// maxReceived is how many are told apart.
const maxReceived = 64

// same tells whether both came from the same peer and remote.
func (r Received) same(other Received) bool { return r.Peer == other.Peer && r.Remote == other.Remote }

// AddReceived adds to a list of what came, which it may change. It keeps its order and its bound.
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

// SetReceived remembers from whom the bytes of an image came, for as long as the image is here.
func (s *Store) SetReceived(d agentbox.Digest, list []Received) error {
	return s.setBeside(d, imageReceivedName, list)
}

// Received gives what SetReceived was given, nothing when that was never called or cannot be read.
func (s *Store) Received(d agentbox.Digest) []Received {
	return AddReceived(nil, beside[[]Received](s, d, imageReceivedName)...)
}
