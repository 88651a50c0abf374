// Package job keeps the jobs of a box: commands that go on when nobody looks. It records what they
// write, lets any number of clients attach, and remembers how they ended. It starts no machine and
// knows no daemon: it lives in the box's supervisor, and whoever only wants to read finds
// everything in files.
package job
