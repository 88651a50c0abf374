// Package gateway is what happens to a flow that a box opens: it is decided, and then ended here
// and begun anew towards the place that was decided about, with the box's secrets put in on the
// way. It knows nothing of machines and packets: a network stack hands it connections, and it never
// sees what the stack refused.
//
// One name counts for a flow. It is the name the box looked up; the TLS server name, the Host of
// each request and the address that is dialled must all be that name's, or the flow is denied. The
// host resolves the name again, and each address is decided about at the moment it is dialled, so
// that nothing a resolver says later leads elsewhere.
package gateway
