// Package door lets other programs and a person's browser call the public part of the daemon's API
// (api.Public) over TCP: it checks who asks from where, what their token permits and which project
// it is for, and passes the call on. It does no call itself, and knows no state of boxes.
//
// A request must name this machine as its Host and, if a web page sent it, come from the door's own
// page: else any site that the user visits could call the door. It needs a token, as Authorization:
// Bearer, or the two halves of the session of a page. One half is a cookie; browsers send it to every
// port of a host, so also to a server in a box that is forwarded to this machine. The other half
// is in the page's storage, which belongs to one port, and is sent as a header.
//
// A call is a POST with a JSON object, or a GET with the object's fields as a query for a call that
// only looks. Accept chooses the answer: JSON (the default), text/event-stream, or
// application/x-ndjson, the daemon's own form.
package door
