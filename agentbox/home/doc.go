// Package home names every file agentbox keeps on a machine, in one place.
// It creates the directories it is asked for and reads or writes nothing in them.
package home
