// Package wire gives services authenticated connections between the peers of one team. It knows no
// message of any service, and keeps nothing on disk.
//
// A Node has one UDP socket and one QUIC transport on it. Each service has its own ALPN and its own
// connections:
//
//	node, err := wire.Listen(wire.Config{Key: key, Listen: "[::]:7946", Log: log})
//	node.Admit(list)                       // now, and whenever the member list changes
//	node.Handle(wire.Blobs, func(ctx context.Context, c *wire.Conn) { ... })
//	c, err := node.Dial(ctx, peer, wire.Blobs)
//
// Terms:
//
//   - Both sides of every connection present a certificate signed by their ed25519 identity, and
//     both are checked against the newest member list given to Admit. Names and dates in
//     certificates mean nothing; Conn.Peer is the hash of the key that the other side proved to
//     have.
//   - Dial returns when the other side has admitted us, not before. A peer that is not a member
//     gets a failed handshake; one that does not even know the team's root key gets it before it
//     sees our certificate.
//   - Admit closes every connection, whichever side opened it, to a peer that the list no longer
//     admits. An expired membership ends within seconds too.
//   - A handler runs in its own goroutine per connection. Its ctx and the Conn end when the
//     connection ends; the connection ends when the handler returns. Node.Close ends all of them
//     and waits for the handlers.
//   - The caller of Dial owns the Conn and closes it. Nothing is pooled here: two Dials are two
//     connections. A connection on which nothing is received for 30 s ends, one of DialLine after 150 s.
//   - Streams are reliable and ordered, datagrams are neither, and have at most MaxDatagram bytes.
//     A service of questions and answers needs neither: it has Conn.Ask at one end, AnswerHandler
//     at the other.
//   - A peer may have 16 connections to one service of ours, with 256 streams each.
//
// The addresses of a peer come from AddAddresses, from the connections that peers opened to us, and
// from the last address that worked. An address is a hint: the machine that answers there must
// prove to be the peer.
//
// A machine that is to join is no member yet. A GuestService, requested by DialGuest and served
// through HandleGuests, lets the holder of an invitation in, which it proves by a secret and
// Conn.Binding.
package wire
