// Package control has the calls that a supervisor answers on its own socket, with what they carry.
// Only the daemon makes them: what its clients call is package api.
package control
