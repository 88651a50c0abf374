package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// Service is the daemon of one home as the system runs it. Two homes have two services.
type Service struct {
	Binary  string // the program, absolute
	Home    string // AGENTBOX_HOME, absolute
	Default bool   // Home is the one that agentbox takes by itself
}

// Status is what the system says of a service. It is what `service status` shows, and JSON.
type Status struct {
	Manager   string   `json:"manager"` // systemd, launchd; "" where there is none that serves a user
	File      string   `json:"file"`    // the unit
	Installed bool     `json:"installed"`
	Current   bool     `json:"current"` // the unit is what this agentbox would write
	Running   bool     `json:"running"`
	Outlives  bool     `json:"outlives"` // it goes on after the logout, and starts with the machine
	Missing   []string `json:"missing"`  // what to do, as commands or sentences
}

// name tells the services of several homes apart. It has no character that either system would take
// for more than text.
func (s Service) name() string {
	if s.Default {
		return "agentbox"
	}
	sum := sha256.Sum256([]byte(s.Home))
	return "agentbox-" + hex.EncodeToString(sum[:4])
}

// manager is what runs services here. stop is called for a service that is installed, whether or
// not it runs; what is missing is what a person has to do, one line each.
type manager interface {
	// file is where the unit of a service is.
	file(s Service) (string, error)
	text(s Service) string
	// start has the unit that was written run now and at every start of the machine; what could not
	// be had is in missing.
	start(ctx context.Context, s Service) (missing []string, err error)
	stop(ctx context.Context, s Service) error
	state(ctx context.Context, s Service) (running, outlives bool, missing []string)
}

// here finds what runs services on this machine and its name; Missing where nothing does, with what
// to do instead.
func here(ctx context.Context) (string, manager, error) {
	switch runtime.GOOS {
	case "darwin":
		return "launchd", launchd{}, nil
	case "linux":
		// Asked, as a machine may have systemd and a user no instance of it: in a container, or
		// under su.
		if _, err := run(ctx, "systemctl", "--user", "show-environment"); err != nil {
			return "", nil, agentbox.Errorf(agentbox.Missing, "no systemd serves this user: %w", err).
				WithHint("log in on a machine with systemd (su does not begin a session), or have what starts services here run `agentbox daemon`")
		}
		return "systemd", systemd{}, nil
	}
	return "", nil, agentbox.Errorf(agentbox.Missing, "nothing is known that runs services on %s", runtime.GOOS).WithHint("have it run `agentbox daemon`")
}

// Install writes the unit and starts it. Again, it brings both up to date. Errors: Missing where
// nothing runs services or the unit cannot be written, Unavailable where it does not start.
func (s Service) Install(ctx context.Context) (Status, error) {
	_, m, err := here(ctx)
	if err != nil {
		return Status{}, err
	}
	path, err := m.file(s)
	if err != nil {
		return Status{}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return Status{}, agentbox.Errorf(agentbox.Missing, "%w", err)
	}
	// The unit is written before the manager is told, which reads it by itself then.
	if err := durable.WriteFile(path, []byte(m.text(s)), 0o644); err != nil {
		return Status{}, agentbox.Errorf(agentbox.Missing, "write the service: %w", err)
	}
	missing, err := m.start(ctx, s)
	if err != nil {
		return Status{}, err
	}
	st, err := s.Status(ctx)
	st.Missing = append(st.Missing, missing...)
	return st, err
}

// Status asks the system. No manager, and no unit, is no error: Status says it.
func (s Service) Status(ctx context.Context) (Status, error) {
	name, m, err := here(ctx)
	if err != nil {
		return Status{Missing: []string{agentbox.AsError(err).Message, agentbox.AsError(err).Hint}}, nil
	}
	st := Status{Manager: name, Missing: []string{}}
	if st.File, err = m.file(s); err != nil {
		return st, err
	}
	b, err := os.ReadFile(st.File)
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err != nil {
		return st, agentbox.Errorf(agentbox.Missing, "%w", err)
	}
	st.Installed, st.Current = true, string(b) == m.text(s)
	if !st.Current {
		st.Missing = append(st.Missing, "it is of another agentbox: agentbox service install")
	}
	var missing []string
	st.Running, st.Outlives, missing = m.state(ctx, s)
	st.Missing = append(st.Missing, missing...)
	return st, nil
}

// Uninstall stops the service and removes its unit. Boxes go on. One that is not installed is no
// error. Unavailable where it cannot be stopped; the unit stays then.
func (s Service) Uninstall(ctx context.Context) error {
	_, m, err := here(ctx)
	if err != nil {
		return err
	}
	path, err := m.file(s)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := m.stop(ctx, s); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return agentbox.Errorf(agentbox.Missing, "%w", err)
	}
	return nil
}

// run runs one of the system's tools. It gives what the tool printed; the error has the first line
// of what it complained of.
func run(ctx context.Context, name string, args ...string) (string, error) {
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	if text := strings.TrimSpace(complaints.String()); err != nil && text != "" {
		err = errors.New(name + ": " + strings.SplitN(text, "\n", 2)[0])
	}
	return strings.TrimSpace(out.String()), err
}

// userName is as loginctl knows this user.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}
