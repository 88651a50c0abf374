// Package home names every file agentbox keeps on a machine, in one place. It creates the
// directories it is asked for, and reads or writes nothing in them: what is in a file is described
// in docs/internals/formats.md, and belongs to the room that writes it.
//
// Home is one daemon's directory, Box the names of one box in it, Policy what the user decided. All
// of them are values without state, so they can be made anywhere: the daemon, its supervisors and
// the command line each find the same files. Find is where a home comes from; Create makes it and
// refuses one that somebody else could write into (private.go).
//
// Names are lengths, too: a socket's path has at most 107 bytes, which is why maxDir bounds the
// home and why sockets lie in run/, a link into the session's runtime directory where there is one.
//
// What a reader may rely on: directories are for their owner only; a box's files are below boxes/ID
// and run/ID and nowhere else but audit/ID, which outlives the box.
package home
