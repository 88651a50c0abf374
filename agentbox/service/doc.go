// Package service makes the system keep a daemon running that outlives its user's login: as a
// systemd user unit with linger. It neither runs the daemon itself
// nor talks to it. Only a machine that serves a team needs such a service; boxes and commands do
// not, because the command line starts a daemon when none answers.
//
// The package writes one file and calls the system's own tools (systemctl, loginctl) for the
// rest. Nothing in it needs root.
//
// A unit is a pure function of a Service. So Status can compare bytes to find out whether the
// installed unit is current, and tests compare units with golden files. Stopping the daemon must
// not end boxes: they are processes of their own, and the unit must leave them alone.
package service
