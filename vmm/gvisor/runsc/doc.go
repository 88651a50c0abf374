// Package runsc holds the programs that run gVisor machines, compressed, and unpacks them once:
// gVisor's runtime runsc, built by tools/runsc, and the launcher that gives it namespaces of its
// own. It does not run them.
package runsc
