// Package bench measures agentbox as its users see it: whole processes from their start to their
// end, in homes of its own. It changes nothing in the user's home but to add the image and the
// kernel it needed, and it leaves no box, process or directory behind.
package bench
