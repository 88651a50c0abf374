// Package daemon puts the parts of agentbox on one machine together and serves them on a private
// unix socket. It does no work of its own, and killing it at any moment loses nothing.
package daemon
