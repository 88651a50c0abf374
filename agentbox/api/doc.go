// Package api is the wire between the command line and the daemon, and between the daemon and its
// supervisors: typed endpoints over HTTP on a private unix socket. It does not know who serves
// them, and decides nothing.
package api
