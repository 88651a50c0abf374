package service

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
)

func (s Service) unit() string { return s.name() + ".service" }

// file returns a path below the user's configuration, which systemd reads before the system's; see
// systemd.unit(5).
func (s Service) file() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", agentbox.Errorf(agentbox.Missing, "where systemd looks for units of this user is not known: %w", err)
	}
	return filepath.Join(dir, "systemd", "user", s.unit()), nil
}

// render returns the unit. A daemon that finds its home in use exits with 3. The unit counts that
// as a success and retries, so that this daemon takes over when the other one ends. The program is
// run through env, because systemd rejects a program path with quotes in it.
func (s Service) render() string {
	var b strings.Builder
	b.WriteString(`[Unit]
Description=agentbox: boxes for coding agents, and this machine's part in its team
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/env ` + quote(s.Binary) + ` daemon
`)
	if !s.Default {
		b.WriteString("Environment=" + quote("AGENTBOX_HOME="+s.Home) + "\n")
	}
	b.WriteString(`Restart=always
RestartSec=10
SuccessExitStatus=3
# Boxes are processes of their own and go on without the daemon.
KillMode=process

[Install]
WantedBy=default.target
`)
	return b.String()
}

// quote quotes a word of a unit. A percent sign would begin a specifier, a dollar sign a variable.
func quote(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$", "\n", `\n`, "\t", `\t`).Replace(s)
	return `"` + s + `"`
}

// start restarts a running service, so that a new binary takes over.
func (s Service) start(ctx context.Context) error {
	for _, args := range [][]string{{"daemon-reload"}, {"enable", s.unit()}, {"restart", s.unit()}} {
		if _, err := run(ctx, "systemctl", append([]string{"--user"}, args...)...); err != nil {
			return agentbox.Errorf(agentbox.Unavailable, "start the service: %w", err).WithHint("systemctl --user status %s", s.unit())
		}
	}
	// Without linger, the user's systemd and thus the daemon end with the last session. If this
	// fails, state says how to enable it.
	_, _ = run(ctx, "loginctl", "enable-linger")
	return nil
}

// stop also disables the unit, so that it does not start by itself again.
func (s Service) stop(ctx context.Context) error {
	if _, err := run(ctx, "systemctl", "--user", "disable", "--now", s.unit()); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "stop the service: %w", err)
	}
	return nil
}

// state checks that a server runs, starts by itself, and outlives the last session.
func (s Service) state(ctx context.Context) (running, persistent bool, missing []string) {
	state, _ := run(ctx, "systemctl", "--user", "is-active", s.unit())
	enabled, _ := run(ctx, "systemctl", "--user", "is-enabled", s.unit())
	linger, _ := run(ctx, "loginctl", "show-user", userName(), "--property=Linger", "--value")
	if state != "active" {
		missing = append(missing, "it does not run: systemctl --user status "+s.unit())
	}
	if enabled != "enabled" {
		missing = append(missing, "it does not start by itself: agentbox service install")
	}
	if linger != "yes" {
		missing = append(missing, "it ends with your last session: sudo loginctl enable-linger "+userName())
	}
	return state == "active", enabled == "enabled" && linger == "yes", missing
}
