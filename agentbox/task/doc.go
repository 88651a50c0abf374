// Package task keeps tasks: commands that are each tried in a box of their own, one after the other
// as this machine has room, with evidence and exactly one result. It makes no boxes and runs no
// commands: it asks for both through small interfaces, and what it knows is in files, so that the
// next daemon goes on where the last one was killed.
package task
