// Package netlab makes networks of Linux network namespaces, joined by a bridge, for what is
// measured and tested with real processes: links of a known rate, a small MTU, addresses that
// change. It needs root and iproute2. Nothing of it is part of what users run but `bench mesh`.
package netlab
