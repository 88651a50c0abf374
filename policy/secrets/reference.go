package secrets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/zalando/go-keyring"
)

// Kind is where a value is kept.
type Kind string

// The kinds, as the first word of a reference.
const (
	Env       Kind = "env"     // a variable of the user who runs `agentbox up`
	File      Kind = "file"    // a file of the host, read at each use; PATH#KEY.KEY is a value in a JSON file
	LoginFile Kind = "login"   // PATH#HOST: the password or token for a host in a tool's file below the home; see Logins
	Command   Kind = "command" // a program of the host, run at each use: it speaks as git credential helpers do, or prints the value
	Keyring   Kind = "keyring" // the system's keyring (Secret Service, Keychain)
	// Client is another machine, whose user works on this one from there. It is asked for each use, and
	// nothing is kept here.
	Client Kind = "client"
)

// Reference is where a value is kept. Its text is KIND:OF, in JSON too; for Keyring, :OF may be
// left out. It is no secret itself.
type Reference struct {
	Kind   Kind
	Target string // variable, absolute path, command line for sh -c, account in the keyring, or the client's ID
}

// Parse parses a reference. A file must have an absolute path: the process that reads it runs
// elsewhere. Nothing is looked up: whether the variable or file exists shows when the value is
// needed.
func Parse(s string) (Reference, error) {
	kind, of, _ := strings.Cut(s, ":")
	r := Reference{Kind(kind), of}
	switch r.Kind {
	case Env, Command, Client:
	case File, LoginFile:
		if !filepath.IsAbs(of) {
			return r, fmt.Errorf("%q is not an absolute path", of)
		}
	case Keyring:
		return r, nil
	default:
		return r, fmt.Errorf("%q is not a source of secrets: env:VARIABLE, file:PATH, login:PATH#HOST, command:LINE or keyring", s)
	}
	if strings.TrimSpace(of) == "" {
		return r, fmt.Errorf("%q does not say which: %s:…", s, kind)
	}
	return r, nil
}

func (r Reference) String() string {
	if r.Target == "" {
		return string(r.Kind)
	}
	return string(r.Kind) + ":" + r.Target
}

// MarshalText is String.
func (r Reference) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is Parse.
func (r *Reference) UnmarshalText(b []byte) error {
	v, err := Parse(string(b))
	*r = v
	return err
}

// Service is the name of our entries in the keyring.
const Service = "agentbox"

// Purpose is what a value is wanted for.
type Purpose struct {
	Name string // of the secret
	Host string // it is for, for commands that keep several
	// Env looks up a variable of the environment in which agentbox was called, which is not the
	// supervisor's own.
	Env func(string) (string, bool)
}

// maxValue bounds a value, in bytes: servers refuse longer headers.
const maxValue = 16 << 10

// Value gets the present value, without line breaks at its end. It is not empty, has at most 16
// KiB, and fits into a header. Errors name the secret and the reference, never what was read. A
// command takes at most commandTime, or until ctx ends; a keyring as long as it takes.
func (r Reference) Value(ctx context.Context, a Purpose) (string, error) {
	v, err := r.get(ctx, a)
	v = strings.TrimRight(v, "\r\n")
	if err == nil {
		err = usable(v)
	}
	if err != nil {
		return "", fmt.Errorf("secret %s from %s: %w", a.Name, r, err)
	}
	return v, nil
}

// usable tells what is wrong with a value, and not what it is.
func usable(v string) error {
	switch {
	case v == "":
		return errors.New("it is empty")
	case len(v) > maxValue:
		return fmt.Errorf("it is longer than %d bytes", maxValue)
	case strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
		return errors.New("it contains a line break or another control character, which no header may hold")
	}
	return nil
}

func (r Reference) get(ctx context.Context, a Purpose) (string, error) {
	switch r.Kind {
	case Env:
		if v, ok := a.Env(r.Target); ok {
			return v, nil
		}
		return "", errors.New("the variable is not set where agentbox was last called from")
	case File:
		path, keys := splitJSON(r.Target)
		if keys == nil {
			return readFile(path)
		}
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		return readJSON(home, path, keys)
	case LoginFile:
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		return readLogin(home, r.Target)
	case Command:
		return run(ctx, r.Target, a.Host)
	case Keyring:
		v, err := keyring.Get(Service, r.account(a.Name))
		if errors.Is(err, keyring.ErrNotFound) {
			err = errors.New("the keyring has no such entry")
		}
		return v, err
	}
	return "", fmt.Errorf("no value of kind %q is here", r.Kind)
}

// account is the entry's name in the keyring: that of the reference, else the secret's.
func (r Reference) account(name string) string { return cmp.Or(r.Target, name) }

// Store writes a value to the keyring, the only kind that can be written. It replaces an earlier
// one.
func (r Reference) Store(name, value string) error {
	if r.Kind != Keyring {
		return fmt.Errorf("%s holds its value itself", r)
	}
	return keyring.Set(Service, r.account(name), value)
}

// Forget removes an entry that Store made. Without one it does nothing.
func (r Reference) Forget(name string) error {
	if err := keyring.Delete(Service, r.account(name)); !errors.Is(err, keyring.ErrNotFound) {
		return err
	}
	return nil
}

// readFile reads a file that contains only the value. It reads slightly more than a value may have,
// so that a longer one is noticed.
func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxValue+2))
	return string(b), err
}
