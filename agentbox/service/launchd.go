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

// launchd runs agents of a user on macOS. They end with the login: a daemon that does not needs
// root there. Status says so (Outlives is false).
type launchd struct{}

// label is the agent's name to launchd, in reverse domain form as it asks for.
func (s Service) label() string { return "dev.agentbox." + s.name() }

// file is where launchd looks for agents of this user: launchd.plist(5).
func (launchd) file(s Service) (string, error) {
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", agentbox.Errorf(agentbox.Missing, "the home directory of this user is not known: %w", err)
	}
	return filepath.Join(dir, "Library", "LaunchAgents", s.label()+".plist"), nil
}

// text is the agent's property list. AbandonProcessGroup has launchd leave boxes alone when the
// daemon ends.
func (launchd) text(s Service) string {
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

// escape makes text of any string in XML.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}

// domain is where launchd has this user's agents: those of the graphical login.
func domain() string { return "gui/" + strconv.Itoa(os.Getuid()) }

// start replaces an agent that is loaded, as launchd reads a file only once.
func (l launchd) start(ctx context.Context, s Service) (missing []string, err error) {
	path, err := l.file(s)
	if err != nil {
		return nil, err
	}
	_, _ = run(ctx, "launchctl", "bootout", domain()+"/"+s.label()) // an older one, if there is
	if _, err := run(ctx, "launchctl", "bootstrap", domain(), path); err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "start the service: %w", err)
	}
	return nil, nil
}

// stop unloads the agent. Its file is removed by the caller, so it is not loaded at the next login.
func (launchd) stop(ctx context.Context, s Service) error {
	if _, err := run(ctx, "launchctl", "bootout", domain()+"/"+s.label()); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "stop the service: %w", err)
	}
	return nil
}

// state asks launchd, whose answer is text for people: only one line of it is looked for.
func (launchd) state(ctx context.Context, s Service) (running, outlives bool, missing []string) {
	out, err := run(ctx, "launchctl", "print", domain()+"/"+s.label())
	if err != nil || !strings.Contains(out, "state = running") {
		missing = append(missing, "it does not run: launchctl print "+domain()+"/"+s.label())
	}
	return len(missing) == 0, false, append(missing, "it ends with your login: macOS runs agents of a user only while they are logged in")
}
