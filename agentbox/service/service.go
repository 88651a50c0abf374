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
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// Service is the daemon of one home as the system runs it. Each home has its own service.
type Service struct {
	Binary  string // absolute path of the program
	Home    string // AGENTBOX_HOME, absolute
	Default bool   // Home is the default home
}

// Status is what the system reports about a service. It is what `service status` shows, and its
// JSON form.
type Status struct {
	Manager    string   `json:"manager"` // systemd; "" if none serves this user
	File       string   `json:"file"`    // the unit
	Installed  bool     `json:"installed"`
	Current    bool     `json:"current"` // the unit is what this build would write
	Running    bool     `json:"running"`
	Persistent bool     `json:"persistent"` // it survives a logout and starts with the machine
	Missing    []string `json:"missing"`    // what to do about it, as commands or sentences
}

// name is unique for each home, without characters that are special to systemd.
func (s Service) name() string {
	if s.Default {
		return "agentbox"
	}
	sum := sha256.Sum256([]byte(s.Home))
	return "agentbox-" + hex.EncodeToString(sum[:4])
}

// available is Missing, with what to do instead, where no systemd runs services of this user. It has
// to ask: a user may have no instance although the machine has systemd, in a container or under su.
func available(ctx context.Context) error {
	if _, err := run(ctx, "systemctl", "--user", "show-environment"); err != nil {
		return agentbox.Errorf(agentbox.Missing, "this user has no running systemd instance: %w", err).
			WithHint("log in on a machine with systemd (su does not begin a session), or have what starts services here run `agentbox daemon`")
	}
	return nil
}

// Install writes the unit and starts it. On an installed service it updates and restarts both. The
// error is Missing if no systemd runs services or the unit cannot be written, and Unavailable if
// the service does not start.
func (s Service) Install(ctx context.Context) (Status, error) {
	if err := available(ctx); err != nil {
		return Status{}, err
	}
	path, err := s.file()
	if err != nil {
		return Status{}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return Status{}, agentbox.Errorf(agentbox.Missing, "%w", err)
	}
	// systemd reads the unit when it is told to start it, so the unit is written first.
	if err := durable.WriteFile(path, []byte(s.render()), 0o644); err != nil {
		return Status{}, agentbox.Errorf(agentbox.Missing, "write the service: %w", err)
	}
	if err := s.start(ctx); err != nil {
		return Status{}, err
	}
	return s.Status(ctx)
}

// Status asks the system. It is no error if there is no systemd or no unit: Status says so.
func (s Service) Status(ctx context.Context) (st Status, err error) {
	if err := available(ctx); err != nil {
		return Status{Missing: []string{agentbox.AsError(err).Message, agentbox.AsError(err).Hint}}, nil
	}
	st = Status{Manager: "systemd", Missing: []string{}}
	if st.File, err = s.file(); err != nil {
		return st, err
	}
	b, err := os.ReadFile(st.File)
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err != nil {
		return st, agentbox.Errorf(agentbox.Missing, "%w", err)
	}
	st.Installed, st.Current = true, string(b) == s.render()
	if !st.Current {
		st.Missing = append(st.Missing, "it is of another agentbox: agentbox service install")
	}
	var missing []string
	st.Running, st.Persistent, missing = s.state(ctx)
	st.Missing = append(st.Missing, missing...)
	return st, nil
}

// Uninstall stops the service and removes its unit. Boxes go on. It is no error if the service is
// not installed. If it cannot be stopped, the error is Unavailable and the unit stays.
func (s Service) Uninstall(ctx context.Context) error {
	if err := available(ctx); err != nil {
		return err
	}
	path, err := s.file()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := s.stop(ctx); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return agentbox.Errorf(agentbox.Missing, "%w", err)
	}
	return nil
}

// run runs one of the system's tools and returns what it printed. The error has the first line of
// the tool's complaint.
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

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}
