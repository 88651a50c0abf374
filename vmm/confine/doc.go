// Package confine takes rights away from a program before it is started: what it may open is said in advance, and the rest
// of the host's files, TCP and other programs' signals are out of its reach (Linux's Landlock, which needs no privilege). It
// is no sandbox for system calls, and does not hide which processes exist.
package confine
