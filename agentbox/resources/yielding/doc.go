// Package yielding starts the processes of other members' tasks, so that this machine's owner does not
// feel them: they are niced, read and write after everybody else, and are in a control group of their
// own. It stops none of them.
//
//	<base>/agentbox-others            its weight is the least; base is the highest group of this user
//	<base>/agentbox-others/ID         a box: memory.high
//	<base>/agentbox-others/ID/main    its supervisor and machine
//
// What of it the kernel has here differs: Linux without delegated groups only nices. And nice by itself
// means nothing between two sessions, each of which is a group of its own to the scheduler (autogroup in
// sched(7)); so the sessions are niced, too, those that a machine begins as well. Programs in a box of the
// kind container begin more, which are not.
package yielding
