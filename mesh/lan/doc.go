// Package lan lets members of a team find each other on the local network by multicast DNS (RFC
// 6762, RFC 6763), where no address that they remember is right any more. It only finds addresses
// to try: whether a member answers there is for the handshake to say (mesh/wire).
//
// A Beacon does it: it asks who is there, answers those who ask, and tells Config.Found of
// addresses. mesh.Mesh starts one when it begins to take part in a team (nearby.go). Everything
// that it hears may be anybody's: packets are bounded, must come from an address of the link on
// which they came, and cause at most one answer a second and a call of Found.
//
// What is announced is a service whose name is made from the team's root key by a hash, an instance
// of it with a name drawn at random at every start, and a UDP port. There is no name of a machine,
// no identity and no address in it: where a member is, its packets say. Only a question for that
// very name gets an answer, so listing all services of a network does not show us. A listener
// learns that a peer of an opaque team is there, as it would from the handshakes.
//
// What it will not do: keep records of others, answer for other services, resolve names of hosts,
// or speak IPv6.
package lan
