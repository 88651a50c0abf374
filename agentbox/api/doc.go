// Package api is the wire protocol between the command line and the daemon, and between the daemon
// and its supervisors: typed endpoints over HTTP on a private Unix socket. It does not know who
// serves them, and makes no decisions.
//
// An Endpoint is a path with the types of its request and its answer. Handle serves one and Call
// calls one; no other code writes or reads frames. Each file has the endpoints of one subject with
// their types. The daemon serves them in agentbox/daemon/routes.go; a supervisor serves those of
// supervisor.go and its part of jobs.go.
//
// Both ends of the daemon's socket are the same build, because the command line replaces a daemon
// of another build. Supervisors outlive the daemon that started them, so an older build may read
// what is sent to a supervisor. There, fields are added and never renamed, a missing field must
// keep its former meaning, and a client must understand an answer without the new field.
//
// Unless a name says otherwise, sizes are bytes, durations are nanoseconds, times are RFC 3339, and
// paths are absolute paths of this host. A path "in the box" is marked as such. An empty list may
// be null.
package api
