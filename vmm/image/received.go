package image

import (
	"encoding/json"
	"os"
	"path/filepath"

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

// AddReceived adds to a list of what came, which it may change. It keeps its order and its bound.
func AddReceived(list []Received, more ...Received) []Received {
	for _, r := range more {
		at := find(list, r)
		if at < 0 && len(list) >= maxReceived {
			r.Peer, r.Remote = "", ""
			at = find(list, r)
		}
		if at < 0 {
			list = append(list, r)
			continue
		}
		list[at].Bytes += r.Bytes
	}
	return list
}

// find is the place in a list of what came from the same peer and remote, -1 for none.
func find(list []Received, of Received) int {
	for i, r := range list {
		if r.Peer == of.Peer && r.Remote == of.Remote {
			return i
		}
	}
	return -1
}

// SetReceived remembers from whom the bytes of an image came, for as long as the image is here.
func (s *Store) SetReceived(d agentbox.Digest, list []Received) error {
	return writeJSON(filepath.Join(s.imageDir(d), imageReceivedName), list)
}

// Received gives what SetReceived was given, nothing when that was never called or cannot be read.
func (s *Store) Received(d agentbox.Digest) []Received {
	b, err := os.ReadFile(filepath.Join(s.imageDir(d), imageReceivedName))
	if err != nil {
		return nil // it says something and decides nothing
	}
	var list []Received
	if json.Unmarshal(b, &list) != nil {
		return nil
	}
	return AddReceived(nil, list...)
}
