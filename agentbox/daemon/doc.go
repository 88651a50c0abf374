// Package daemon puts the parts of agentbox on one machine together and serves them on a private
// unix socket, home/run/daemon.sock. It does no work of its own, and killing it at any moment loses
// nothing: everything that matters is in files of the home or can be asked of a supervisor, and the
// next daemon takes it up.
//
// Run is all of it. One daemon serves a home, which a lock sees to (home/daemon.lock); the command
// line starts one when none answers and replaces one of another build. routes.go has every call and
// who answers it: most go straight to a method of host or of one of its rooms. What is in this
// package is glue: between boxes and tasks (tasks.go, heldtasks.go, taskwork.go, snapshotter.go,
// artifacts.go, evidence.go), between boxes and jobs (jobs.go), between the store and the wire
// (cache.go, cacheref.go, store.go) and between this machine and its team (shares.go, mesh.go,
// machines.go, contexts.go).
//
// It is the only package that may import all others, and nothing but the command line imports it.
// Each room below it sees the rest through small interfaces of its own, which are filled in here.
package daemon
