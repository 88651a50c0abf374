// Package service has the system keep a daemon running that outlives the login of the user who
// installed it: a unit of the user's systemd with linger, or a launchd agent on macOS. A machine
// that serves a team needs one; boxes and commands do not, as the command line starts a daemon when
// none answers.
//
// It writes one file and asks the system's own tools (systemctl, loginctl, launchctl) for the rest.
// Nothing of it needs root. Service has the verbs, which the command line calls; what differs
// between the two systems is behind manager.
//
// A unit is a pure function of a Service, so that Status can tell whether the installed one is
// current by comparing bytes, and tests compare it with golden files. The unit must not end boxes
// when it stops the daemon: they are processes of their own.
package service
