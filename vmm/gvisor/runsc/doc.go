// Package runsc holds the programs that run gVisor machines, compressed, and unpacks them once:
// gVisor's runtime runsc, built by tools/runsc, and the launcher that gives it namespaces of its
// own. The guest agent, which a gVisor machine is shown as a file, is unpacked beside them. It does
// not run any of them: vmm/gvisor does.
//
// The programs are embedded, zstd-compressed with their size and digest beside them, by build.sh
// and the command pack; a checkout that never ran them compiles, and says at use that it was built
// without gVisor. They are unpacked into a directory named after the digests of all three, below
// the driver's StateDir, so that an upgrade brings new files and never changes a program that runs.
//
// Unpacker is for any number of goroutines and processes: files appear whole (agentbox/durable),
// and every process verifies for itself what it finds, by digest once and by the file's identity
// from then on.
package runsc
