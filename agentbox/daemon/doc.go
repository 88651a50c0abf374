// Package daemon assembles the parts of agentbox on one machine and serves them on a private unix
// socket, home/run/daemon.sock. It does no work of its own, and killing it at any moment loses
// nothing: everything that matters is in files of the home or is known to a supervisor, and the
// next daemon continues from there.
//
// Run is the entry point. One daemon serves a home, which a lock ensures (home/daemon.lock). The
// command line starts a daemon if none answers, and replaces one of another build. routes.go lists
// every call with its handler: methods of host or of one of its packages, or of the rooms that serve
// calls about several of them: job/jobs, source/sources, task/tasks, fleet/elsewhere,
// contexts/handover, lending. What is left here assembles them (daemon.go, teamwork.go, kube.go),
// connects the store with the team (shares.go, machines.go), and serves what is about all of this
// machine (doctor.go, metrics.go, prune.go, sleep.go).
//
// It is the only package that may import all others, and only its program imports it. Each package
// below it sees the rest through small interfaces of its own, which are implemented here.
package daemon
