// Package supervisor is the process behind one running box: it starts the machine, greets the
// guest, serves SSH into it and obeys the daemon through a socket of its own. It decides nothing
// about boxes and survives the daemon.
package supervisor
