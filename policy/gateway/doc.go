// Package gateway handles the flows that a box opens. It decides about each, terminates it, and
// opens a new one to the destination that was allowed, with the box's secrets inserted on the way.
// It knows nothing of machines and packets: a network stack passes it connections, and not what it
// refused.
//
// One name counts for a flow. It is the name the box looked up: the answer to a lookup is a placeholder
// address, and no outside resolver is asked; the TLS server name, the Host of
// each request and the address that is dialled must all be that name's, or the flow is denied. The
// host resolves the name again, and each address is decided about at the moment it is dialled, so
// that nothing a resolver says later leads elsewhere.
//
// A Gateway carries the flows of one box, in the box's supervisor. The network stack (vmm/netstack)
// calls Lookup for a name and Accept for the first packet of a flow, then passes on a connection
// (Stream) or datagrams (Packets). Evaluator makes the decisions one by one; Check makes them all
// at once, for `policy check`, with the same code.
//
// There are three kinds of TCP connections (stream.go). web serves HTTP in the clear. If a rule or
// a secret needs to see inside of TLS, it is terminated with a certificate of the box's CA, and web
// serves it too. Everything else is dialled and passes, with its visible parts checked. web is a
// net/http server behind a strict check of HTTP/1 (checkedhttp1.go, head.go). Its httputil.ReverseProxy
// sends each request with its secrets (secrets.go) and redacts them from the response (redact.go,
// redactwebsocket.go).
//
// A placeholder in a header of a request in the secret's scope becomes the value, in Basic credentials
// too. A header of the secret's own is set whatever the box sends. Anywhere else (host, method, path,
// URL, body, header name; in pieces, percent-encoded, base64, hex) the request is refused, and the log
// names the secret. Answers to requests that carried a value are asked for without compression, and
// the value and its Basic form are replaced by the placeholder at the same length: in 1xx answers,
// trailers, names of fields (dropped) and frames of WebSocket, which then has no extensions. A value
// with a control frame in its middle is not found, nor one in another encoding.
//
// Invariants:
//
//   - every flow is registered first and decided afterwards (active.go), so a change of policy
//     either ends it or is in its decision;
//   - the value of a secret goes into headers of requests in its scope, and into nothing else; no
//     error, event or log holds one;
//   - memory is bounded, whatever a box or a server sends: connections, heads, names, decoders and
//     windows have limits, and bodies pass through buffers;
//   - every flow and every refusal is an entry of the audit log, or counted in one.
//
// docs/internals/network.md has the rules and kinds of refusals as people need them.
package gateway
