// Package elsewhere reaches boxes that other machines of the team run, for calls about a task or box of this
// one, and lets those machines use this one (Local). The protocol between them is package fleet's.
package elsewhere
