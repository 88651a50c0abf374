// Package confine takes rights away from a program before it is started: what it may open is said
// in advance, and the rest of the host's files, other programs' signals (Linux's Landlock) and
// every socket but those it inherits (a seccomp filter) are out of its reach; neither needs a
// privilege. The filter denies what leads to something of the user's and is no list of what a
// program may do; and which processes exist is not hidden.
package confine
