// Package runsc embeds the programs of gVisor machines, and unpacks them: gVisor's runtime runsc,
// which tools/runsc builds, and the launcher. It unpacks the guest agent, a file of each gVisor
// machine, beside them. It does not run any of them: vmm/gvisor does.
//
// build.sh compresses the programs (agentbox/packed). A checkout without them compiles, and reports
// at use that it was built without gVisor. The programs are unpacked into a directory below the
// driver's StateDir, whose name is a hash of their digests. So an upgrade makes new files, and never
// changes a program that runs.
//
// Any number of goroutines and processes may use an Unpacker. Files appear whole
// (agentbox/durable). Every process verifies them, by digest once and by the identity of the file
// from then on.
package runsc
