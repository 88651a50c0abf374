// Package daemon assembles the parts of agentbox on one machine and serves them on a private unix
// socket, home/run/daemon.sock. It does no work of its own, and killing it at any moment loses
// nothing: everything that matters is in files of the home or is known to a supervisor, and the
// next daemon continues from there.
//
// Run is the entry point. One daemon serves a home, which a lock ensures (home/daemon.lock). The
// command line starts a daemon if none answers, and replaces one of another build. routes.go lists
// every call with its handler: most are methods of host or of one of its packages. The code in this
// package connects boxes with tasks (tasks.go, heldtasks.go, taskwork.go, snapshotter.go,
// artifacts.go, evidence.go), boxes with jobs (jobs.go), the store with the API (cache.go,
// cacheref.go, store.go), and this machine with its team (shares.go, mesh.go, machines.go,
// contexts.go).
//
// It is the only package that may import all others, and only the command line imports it. Each
// package below it sees the rest through small interfaces of its own, which are implemented here.
package daemon
