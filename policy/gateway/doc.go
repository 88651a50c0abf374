// Package gateway is what happens to a flow that a box opens: it is decided, and then ended here
// and begun anew towards the place that was decided about, with the box's secrets put in on the
// way. It knows nothing of machines and packets: a network stack hands it connections, and it never
// sees what the stack refused.
//
// One name counts for a flow. It is the name the box looked up; the TLS server name, the Host of
// each request and the address that is dialled must all be that name's, or the flow is denied. The
// host resolves the name again, and each address is decided about at the moment it is dialled, so
// that nothing a resolver says later leads elsewhere.
//
// A Gateway carries the flows of one box; its supervisor holds it and hands it what vmm/netstack
// accepts. The network stack asks Lookup for a name, Accept for the first packet of a flow, and
// then hands over a connection (Stream) or datagrams (Packets). Evaluator takes the decisions one
// by one; Check takes them all at once for policy check, with the same code.
//
// A TCP connection takes one of three ways (stream.go): HTTP in the clear is served by web; TLS
// whose inside a rule or a secret needs is ended with a certificate of the box's CA and served by
// web, too; all else is dialled and passes, with what can be seen of it checked. web is a server of
// net/http with a strict check of HTTP/1 before it (framing.go, head.go), and httputil.ReverseProxy
// behind it, which sends each request with its secrets in place (secrets.go) and takes them out of
// the answer (redact.go, frames.go).
//
// What always holds:
//
//   - whatever begins is registered first and decided afterwards (live.go), so a change of policy
//     either ends it or is in its decision;
//   - the value of a secret goes into headers of requests in its scope, and into nothing else; no
//     error, event or log holds one;
//   - memory is bounded, whatever a box or a server sends: connections, heads, names, decoders and
//     windows have limits, and bodies pass through buffers;
//   - every flow and every refusal is an entry of the audit log, or counted in one.
//
// docs/internals/network.md has the rules and kinds of refusals as people need them.
package gateway
