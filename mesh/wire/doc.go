// Package wire gives services authenticated connections between the peers of one team. It knows no
// message of any service, and keeps nothing on disk.
//
// A Node has one UDP socket and one QUIC transport on it. Each service has an ALPN of its own, and
// connections of its own:
//
//	node, err := wire.Listen(wire.Config{Key: key, Listen: "[::]:7946", Log: log})
//	node.Admit(list)                       // now, and whenever the member list changes
//	node.Handle(wire.Blobs, func(ctx context.Context, c *wire.Conn) { ... })
//	c, err := node.Dial(ctx, peer, wire.Blobs)
//
// Terms:
//
//   - Both sides of every connection show a certificate that their ed25519 identity signed, and
//     both are checked against the newest member list that was given to Admit. Names and dates in
//     certificates mean nothing; Conn.Peer is the hash of the key that the other side proved to
//     have.
//   - Dial returns when the other side has admitted us, not before. A peer that is not a member
//     gets a failed handshake; one that does not even know the team's root key gets it before our
//     certificate.
//   - Admit closes every connection, whichever side opened it, whose peer the list no longer
//     admits. A membership that expires ends within seconds too.
//   - A handler runs in a goroutine of its own per connection. Its ctx and the Conn's end when the
//     connection ends; the connection ends when the handler returns. Node.Close ends all of them
//     and waits for the handlers.
//   - The caller of Dial owns the Conn, and closes it. Nothing is pooled here: two Dials are two
//     connections. A connection on which nothing is received for 30 s ends.
//   - Streams are reliable and ordered, datagrams are neither, and are at most MaxDatagram bytes. A
//     service of questions and answers needs neither: Conn.Ask at one end, Answers at the other.
//   - A peer may hold 16 connections to one service of ours, and 256 streams in each.
//
// Where a peer is comes from Learn, from the addresses of connections that peers opened to us, and
// from the last address that worked. An address is a hint: the machine that answers there must
// prove to be the peer.
//
// A machine that is to join is no member yet: a GuestService, asked for by DialGuest and served by
// HandleGuests, lets the holder of an invitation in, to prove by a secret and Conn.Binding that it
// has one.
package wire
