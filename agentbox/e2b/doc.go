// Package e2b lets programs that were written for the E2B SDK use boxes: it speaks that SDK's wire,
// at the port of `agentbox serve --e2b`, as a client of the same API as all others. It keeps nothing:
// what a sandbox is beyond a box, such as its end and its metadata, is in the box's labels.
//
// Two protocols share the port. The REST half (sandbox.go) makes and ends sandboxes, for who has a
// token of ours as the API key. The other half is what E2B runs inside each sandbox, on port 49983:
// Connect's services process.Process and filesystem.Filesystem, and /files. Its requests name the
// sandbox in a header or in the host, with a seal of that token for this one sandbox, or by the
// signature of a URL. A third kind of request is for a server in a box, by its host PORT-ID.NAME.
//
// The messages are those of the SDK's descriptors, as structs of ours in JSON, which E2B's own SDKs
// send, or in Protocol Buffers (schema.go), which others do.
package e2b
