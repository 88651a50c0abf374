// Package netlab makes networks of Linux network namespaces, joined by a bridge, for what is
// measured and tested with real processes: links of a known rate, a small MTU, addresses that
// change. It knows nothing of teams: what runs on a machine of it is its caller's. It needs root
// and iproute2. Nothing of it is part of what users run; `lab mesh` measures on it.
//
// A Net is one network. Its namespaces are named after the process that made them, so that a later
// run finds and removes those of a process that was killed.
package netlab
