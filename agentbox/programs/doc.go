// Package programs carries the programs that the command line starts: the daemon, and the
// supervisor that the daemon starts for each box. They are built apart, so that a command which only
// talks to a daemon does not load and initialize what only a daemon needs, and embedded in the one
// binary that users install. They are unpacked into a directory of the home, once for each build.
//
// build.sh builds and packs them. A checkout without them compiles, and reports at use that it was
// built without a daemon.
package programs
