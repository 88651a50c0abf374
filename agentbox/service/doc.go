// Package service has the system keep a daemon running that outlives the login of whoever installed
// it: a unit of the user's systemd with linger, or a launchd agent on macOS. A machine that serves
// a team needs one; boxes and commands do not.
//
// It writes one file and asks the system's own tools (systemctl, loginctl, launchctl) for the rest.
// Nothing of it needs root.
package service
