// Package lan lets members of a team find each other on the local network by multicast DNS (RFC
// 6762, RFC 6763), for when no remembered address is right any more. It only finds addresses to
// try: the handshake decides whether a member answers there (mesh/wire).
//
// A Beacon asks who is there, answers those who ask, and calls Config.Found with addresses.
// mesh.Mesh starts one when it begins to take part in a team (nearby.go). Anybody may have sent
// what it receives: packets are bounded, must come from an address of the link on which they
// arrived, and cause at most one answer a second and a call of Found.
//
// It announces a service whose name is a hash of the team's root key, an instance of it with a
// random name for each start, and a UDP port. There is no machine name, identity or address in it:
// a member's address is the source of its packets. Only a question for that very name gets an
// answer, so listing all services of a network does not show us. A listener learns that a peer of
// some unknown team is there, as it would from the handshakes.
//
// It does not keep records of others, answer for other services, resolve host names, or speak IPv6.
package lan
