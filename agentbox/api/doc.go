// Package api is the wire between the command line and the daemon, and between the daemon and its
// supervisors: typed endpoints over HTTP on a private unix socket. It does not know who serves
// them, and decides nothing.
//
// An Endpoint is a path with the types of its request and its answer; Handle serves one, Call calls
// one, and nothing else writes or reads frames. Each file has the endpoints of one subject with
// their types. The daemon serves them in agentbox/daemon/routes.go; a supervisor serves those of
// supervisor.go and its part of jobs.go.
//
// Both ends of the daemon's socket are of one build, as the command line replaces a daemon of
// another. Supervisors outlive the daemon that started them, so what crosses to a supervisor may be
// read by an older build: fields are added there and never renamed, a missing one has to mean what
// it meant before, and an answer without a field must be understood.
//
// Sizes are bytes and durations are nanoseconds, unless a name says otherwise; times are RFC 3339;
// paths are absolute paths of this host, unless "in the box" is said. Lists may be null where they
// are empty.
package api
