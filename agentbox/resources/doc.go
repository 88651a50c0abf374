// Package resources decides how much memory and how many CPUs a box gets when nobody says, how many
// machines are kept ready, and how many more boxes this machine has room for. It measures the
// machine and decides by pure functions; it starts, stops and limits nothing.
//
// Words: what boxes were promised is the sum of what their machines may grow to; a box takes memory
// only as it writes to it, so promises may exceed the machine, and by how much is decided here.
package resources
