// Package gossip finds out which members of the team are here, and spreads a few bytes about each.
// It carries no payload but these (Meta): peers that see news in a Meta fetch catalogues and member
// lists over services of their own.
//
// It is memberlist (SWIM) on our own transport: packets are datagrams, and streams are streams, of
// connections that mesh/wire authenticated. A node's name is its PeerID, so equal host names do no
// harm, and its address inside memberlist is derived from its PeerID (virtualAddr), so memberlist
// never sees a real one: a peer's real addresses come from its signed Meta and from the
// connections.
//
// A Gossip is one machine's part. mesh.Mesh starts one when it begins to take part in a team, gives
// it each new member list (Admit), announces through it (Announce), and is notified of every change
// (Config.Changed). Inside, transport is memberlist's network, a link manages the connections to
// one peer, and delegate has memberlist's callbacks.
//
// A peer that is not on the member list cannot connect, and statements about it are ignored:
// NotifyAlive refuses names that are not on the list, and a Meta that its peer did not sign. The
// limits of memberlist are enforced here, with an error and a counter each: a Meta above 512 bytes
// would panic, a packet above its size would be lost silently, a state exchange has no useful
// bound.
//
// What a team costs, simulated (AGENTBOX_SIMULATED_NODES=1000 go test -v -timeout 60m -run TestScale),
// for 16, 100 and 1,000 machines: all on within a minute, all known after 0.0, 8.3 and 139 s, for which
// each sends 52 KB, 267 KB and 2.9 MB; idle 730, 880 and 1,870 B/s; a new catalogue is known to all
// after 0.3, 1.0 and 1.1 s, a machine that vanishes after 6.5, 9.8 and 13.7 s.
//
// memberlist gives up on peers that were absent for long, and does not notice that a machine slept
// or moved to another network; seek.go does.
package gossip
