package exchange

import "agentbox/mesh/identity"

// PeerID names a peer.
type PeerID = identity.PeerID
