// Package home names every file that agentbox keeps on a machine, in one place. It creates
// directories, and reads or writes nothing in them: the files belong to the packages that write them
// (docs/internals/formats.md lists these).
//
// Home is one daemon's directory, Box the names of one box in it, Policy what the user decided. All
// of them are values without state, so daemon, supervisors and command line each make their own and
// find the same files. Find says where a home is; Create makes it, and refuses a directory that
// somebody else could write into (private.go).
//
// Names have lengths, too: a socket's path has at most 107 bytes, so maxDir bounds the home, and
// sockets lie in run/, which links into the session's runtime directory where there is one.
//
// Guarantees: directories are for their owner only. A box's files are below boxes/ID and run/ID and
// nowhere else, except audit/ID, which outlives the box.
package home
