// Package reach gets a command to the daemon that it talks to, and to the SSH servers of that
// daemon's boxes. It knows where a socket is and how a daemon is started, and nothing of what is said
// through it: that is package api.
//
// It is the only package through which the command line learns of a home.
package reach
