//go:build linux

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"agentbox/vmm/guest/protocol"
)

// box is what the last Attach said; empty before the first. mu guards it.
type box struct {
	mu sync.Mutex
	// The variables of every command; the directory of commands that name none, "" for the user's
	// home; the user, nil for the image's.
	env  map[string]string
	dir  string
	user *User
}

// termGrace is how long user processes have after SIGTERM when the box ends.
const termGrace = 3 * time.Second

// attach gives the guest its workspace and configuration, and starts services in the background. It
// may be called again, for a machine of the pool that was warmed up; the last call counts. Files
// are written before anything runs that could read them. An error leaves what was done.
func (a *Agent) attach(r protocol.AttachRequest) error {
	user := a.User
	if r.User != "" && r.User != user.Name {
		u, err := a.Machine.LookupUser(r.User)
		switch {
		case err == nil:
			user = u
		case r.User != boxUser || !errors.Is(err, fs.ErrNotExist): // the default has another name in some images
			return fmt.Errorf("user %s: %w", r.User, err)
		}
	}
	if r.Hostname != "" {
		if err := a.Machine.SetHostname(r.Hostname); err != nil {
			return fmt.Errorf("set the hostname: %w", err)
		}
	}
	if names := containerNames(r.Services); len(names) > 0 {
		if err := a.Machine.NameServices(names); err != nil {
			return fmt.Errorf("name the services: %w", err)
		}
	}
	if err := a.Machine.LimitUser(r.PIDs); err != nil {
		return fmt.Errorf("limit processes: %w", err)
	}
	env := r.Env
	if r.Authority != nil {
		trusted, err := a.Machine.Trust(*r.Authority)
		if err != nil {
			return fmt.Errorf("install the box's certificate authority: %w", err)
		}
		maps.Copy(trusted, env) // what the box's configuration says comes first
		env = trusted
	}
	dir := r.Dir
	if r.Workspace { // last, since a Hello had it begun
		if err := a.Machine.Mount(); err != nil {
			return fmt.Errorf("mount the workspace: %w", err)
		}
		if dir == "" {
			dir = a.Machine.Workspace
		}
		if user.UID != 0 {
			giveWorkspace(a.Machine.Workspace, user)
		}
	}
	a.box.set(env, dir, user)
	if err := writeFiles(r.Files); err != nil {
		return err
	}
	if r.Own {
		a.first.begin(a)
	}
	// Services are launched like any command, so they wait for what is the box's own, too.
	a.manager.start(r.Services)
	return nil
}

var hostFiles = []string{protocol.AptSources, protocol.AptSettings}

// placeholder is the content of a prepared file. It makes the file have a block of its own.
const placeholder = "\n"

// prepareFiles makes the files that writeFiles will change while the template is made, where the
// image has their directories: making a file in an overlay takes time that no clone should spend.
// root is the box's root.
func prepareFiles(root string) error {
	for _, name := range hostFiles {
		path := filepath.Join(root, name)
		if st, err := os.Stat(filepath.Dir(path)); err != nil || !st.IsDir() {
			continue
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			err = os.WriteFile(path, []byte(placeholder), hostFileMode)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

const hostFileMode fs.FileMode = 0o644

// writeFiles writes the host's files. It replaces what the image has in their place, such as a
// link, and does not follow it. The paths are the host's choice and not checked.
func writeFiles(files []protocol.File) error {
	for _, f := range files {
		if err := writeHostFile(f); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	return nil
}

// writeHostFile writes one file, in place if it would be the same: that allocates no block.
func writeHostFile(f protocol.File) error {
	if st, err := os.Lstat(f.Path); err == nil && st.Mode() == hostFileMode { // a file, and as it would be made
		return replaceFile(f.Path, f.Content)
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(f.Path, []byte(f.Content), hostFileMode)
}

// detach ends everything that the user runs and unmounts the workspace, which is possible only when
// no process is left. Services are kept from starting again, then all get SIGTERM, and SIGKILL
// after termGrace.
func (a *Agent) detach() error {
	a.manager.cancel()
	a.Machine.TermUser(termGrace)
	a.Machine.KillUser()
	a.spawner.killAll()
	a.manager.wait()
	a.Machine.Sync()
	if err := a.Machine.Unmount(); err != nil {
		return fmt.Errorf("unmount the workspace: %w", err)
	}
	return nil
}

func (b *box) set(env map[string]string, dir string, user User) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.env, b.dir, b.user = env, dir, &user
}

// environ is the box's part of the environment. The map is replaced, never changed.
func (b *box) environ() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.env
}

// workdir is the default directory of commands: the first of the box's directory, the user's home
// and / that exists.
func (b *box) workdir(u User) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, dir := range []string{b.dir, u.Home} {
		if st, err := os.Stat(dir); dir != "" && err == nil && st.IsDir() {
			return dir
		}
	}
	return "/"
}

// loginName is the name that clients use for the box's user, whatever the image calls it.
const loginName = "agentbox"

// userNamed finds the user that a command runs as. The names that hosts use by themselves
// (agentbox, agent, root) work in images that do not have them. The error is a *launchError.
func (a *Agent) userNamed(name string) (User, error) {
	own := a.ownUser()
	if name == "" || name == loginName || name == own.Name {
		return own, nil
	}
	u, err := a.Machine.LookupUser(name)
	switch {
	case err == nil:
		return u, nil
	case name == "root":
		return User{Name: "root", Home: "/root", Shell: "/bin/sh"}, nil
	case name == boxUser: // which the image calls something else
		return own, nil
	case errors.Is(err, fs.ErrNotExist):
		return User{}, &launchError{126, fmt.Errorf("the box has no user %q", name)}
	}
	return User{}, &launchError{126, fmt.Errorf("find user %q: %w", name, err)}
}

// ownUser is the user named by Attach, else the image's.
func (a *Agent) ownUser() User {
	a.box.mu.Lock()
	defer a.box.mu.Unlock()
	if a.box.user != nil {
		return *a.box.user
	}
	return a.User
}
