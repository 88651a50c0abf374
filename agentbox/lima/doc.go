// Package lima makes and keeps the virtual machine in which a host runs boxes that are to be apart
// from it by Lima (lima-vm.io), or that cannot run on it at all, as on macOS. It knows nothing of
// boxes: what it gives is a Linux machine that is reached by ssh.
//
// Lima is a library, in a program of its own: it takes a tenth of a second to initialize, ends its
// process where QEMU is too old (log.Fatal), and starts itself again as the host agent that stays
// with a machine. child.go runs that program, agentbox-lima, once for each act; it writes its log
// as lines of JSON and answers with one Instance.
//
// All machines of a home are in a Lima home of ours (Home), so `limactl` of the user neither lists
// nor changes them, unless LIMA_HOME says so.
package lima
