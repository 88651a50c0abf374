package service

import (
	"context"
	"encoding/xml"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"agentbox/agentbox"
)

// launchd runs agents of a user on macOS. They end with the login; a daemon that outlives it would
// need root. Status reports this (Persistent is false).
type launchd struct{}

// label returns the agent's name in launchd, in reverse domain form by its convention.
func (s Service) label() string { return "dev.agentbox." + s.name() }

// file returns the path where launchd looks for this user's agents; see launchd.plist(5).
func (launchd) file(s Service) (string, error) {
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", agentbox.Errorf(agentbox.Missing, "the home directory of this user is not known: %w", err)
	}
	return filepath.Join(dir, "Library", "LaunchAgents", s.label()+".plist"), nil
}

// render returns the agent's property list. AbandonProcessGroup keeps launchd from killing boxes
// when the daemon ends.
func (launchd) render(s Service) string {
	env := ""
	if !s.Default {
		env = `	<key>EnvironmentVariables</key>
	<dict>
		<key>AGENTBOX_HOME</key>
		<string>` + escape(s.Home) + `</string>
	</dict>
`
	}
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>` + escape(s.label()) + `</string>
	<key>ProgramArguments</key>
	<array>
		<string>` + escape(s.Binary) + `</string>
		<string>daemon</string>
	</array>
` + env + `	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<true/>
	<key>ThrottleInterval</key>
	<integer>10</integer>
	<key>ProcessType</key>
	<string>Background</string>
	<key>AbandonProcessGroup</key>
	<true/>
</dict>
</plist>
`
}

// escape returns s as XML text.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder cannot fail
	return b.String()
}

// guiDomain returns the launchd domain of this user's agents: that of the graphical login.
func guiDomain() string { return "gui/" + strconv.Itoa(os.Getuid()) }

// start replaces a loaded agent, because launchd reads the file only once.
func (l launchd) start(ctx context.Context, s Service) (missing []string, err error) {
	path, err := l.file(s)
	if err != nil {
		return nil, err
	}
	_, _ = run(ctx, "launchctl", "bootout", guiDomain()+"/"+s.label()) // an older one, if any
	if _, err := run(ctx, "launchctl", "bootstrap", guiDomain(), path); err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "start the service: %w", err)
	}
	return nil, nil
}

// stop unloads the agent. The caller removes its file, so that it is not loaded at the next login.
func (launchd) stop(ctx context.Context, s Service) error {
	if _, err := run(ctx, "launchctl", "bootout", guiDomain()+"/"+s.label()); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "stop the service: %w", err)
	}
	return nil
}

// state asks launchd. Its answer is text for people, so we look for only one line of it.
func (launchd) state(ctx context.Context, s Service) (running, persistent bool, missing []string) {
	out, err := run(ctx, "launchctl", "print", guiDomain()+"/"+s.label())
	if err != nil || !strings.Contains(out, "state = running") {
		missing = append(missing, "it does not run: launchctl print "+guiDomain()+"/"+s.label())
	}
	return len(missing) == 0, false, append(missing, "it ends with your login: macOS runs agents of a user only while they are logged in")
}
