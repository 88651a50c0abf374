package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/git"

	"al.essio.dev/pkg/shellescape"
)

// Each box is a git remote of the checkout it came from. The remote's URL looks local. Its
// uploadpack and receivepack are an agentbox command, which git runs through the shell instead
// of its own program:
//
//	[AGENTBOX_HOME=DIR] BINARY git-serve BOX git-upload-pack '/agentbox/NAME'
//
// That command runs the git service on the workspace in the box and connects its standard input
// and output. It ignores the path and forwards the variable GIT_PROTOCOL if it is set. Unlike
// ext:: URLs, this needs no permission that git denies by default; unlike ssh, it touches no
// file of the user's.

// markKey marks a remote's section as made by agentbox; its value is the box's id.
const markKey = "agentbox"

// Remote is the git remote of a box. It is stored as one section of the git configuration and
// recognised by the section's first two lines.
type Remote struct {
	Name   string // of the remote: equal to the box's name
	Box    string // argument of git-serve: the box's id, which is never reused
	Binary string // absolute path of agentbox
	Home   string // AGENTBOX_HOME of the box's daemon; "" for the default
}

// These refs are created in the box before a fetch, for what a fetch would otherwise miss: a
// detached HEAD, and the branches and HEADs of submodules, whose objects are copied into the
// repository that is fetched from.
const (
	DetachedRefs = "refs/agentbox/detached/" // HEAD
	ModuleRefs   = "refs/agentbox/modules/"  // PATH/HEAD, PATH/BRANCH
)

// remoteName is stricter than git: it becomes part of refs and of a section header.
var remoteName = agentbox.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// AddRemote writes the remote of a box into the checkout's configuration and replaces the entry
// of an earlier box with the same name. It never touches a remote that the user made: a name
// taken by one fails with an *agentbox.Error of code Exists. A name or path that cannot be
// quoted for git and the shell fails with Invalid; a configuration that stays locked fails with
// Conflict. The call costs one git process and writes nothing when nothing changed.
func AddRemote(ctx context.Context, repo Repo, r Remote) error {
	if !remoteName().MatchString(r.Name) || strings.Contains(r.Name, "..") || strings.HasSuffix(r.Name, ".lock") {
		return agentbox.Errorf(agentbox.Invalid, "%q cannot be the name of a git remote", r.Name)
	}
	if !filepath.IsAbs(r.Binary) || strings.ContainsAny(r.Box+r.Binary+r.Home, "\x00\n") {
		return agentbox.Errorf(agentbox.Invalid, "cannot make a git remote that runs %q for box %q", r.Binary, r.Box)
	}
	if err := checkFree(ctx, repo, r.Name); err != nil {
		return err
	}
	return editConfig(ctx, repo, func(config []byte) []byte {
		return insertSection(removeSection(config, r.Name, ""), r.section())
	})
}

// RemoveRemote removes the remote of a box from the configuration and preserves everything else
// byte for byte. Fetched refs stay under refs/remotes, because they may be the only copy of work
// done in the box. It is not an error if there is no such remote, or if it belongs to the user
// or another box. An empty box matches any box.
func RemoveRemote(ctx context.Context, repo Repo, name, box string) error {
	return editConfig(ctx, repo, func(config []byte) []byte { return removeSection(config, name, box) })
}

// checkFree fails when a remote of that name exists that agentbox did not make.
func checkFree(ctx context.Context, repo Repo, name string) error {
	out, exists, err := answer(ctx, repo.Root, "config", "--null", "--get-regexp", `^remote\.`+regexp.QuoteMeta(name)+`\.`)
	if err != nil || !exists {
		return err
	}
	for _, s := range parseConfig(out) {
		if s.Key == "remote."+name+"."+markKey {
			return nil
		}
	}
	return agentbox.Errorf(agentbox.Exists, "the repository at %s has a git remote named %s already", repo.Root, name).
		WithHint("give the box another name, or rename the remote: git remote rename %s OTHER", name)
}

// header starts every section that agentbox writes, followed by the box's id.
func header(name string) string { return "[remote \"" + name + "\"]\n\t" + markKey + " = " }

// section is the text of the remote. Git and the shell parse it, so values are quoted for both.
func (r Remote) section() string {
	run := ""
	if r.Home != "" {
		run = "AGENTBOX_HOME=" + shellescape.Quote(r.Home) + " "
	}
	run += shellescape.Quote(r.Binary) + " git-serve " + shellescape.Quote(r.Box)
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\n", header(r.Name), r.Box)
	fmt.Fprintf(&b, "\turl = file:///agentbox/%s\n", r.Name)
	fmt.Fprintf(&b, "\tfetch = +refs/heads/*:refs/remotes/%s/*\n", r.Name)
	fmt.Fprintf(&b, "\tfetch = +%s*:refs/remotes/%s/*\n", DetachedRefs, r.Name)
	fmt.Fprintf(&b, "\tfetch = +%s*:refs/agentbox/%s/*\n", ModuleRefs, r.Name)
	fmt.Fprintf(&b, "\tuploadpack = %s\n", git.Quote(run+" git-upload-pack"))
	b.WriteString("\ttagOpt = --no-tags\n") // a box must not add names to the host's refs/tags
	fmt.Fprintf(&b, "\treceivepack = %s\n", git.Quote(run+" git-receive-pack"))
	fmt.Fprintf(&b, "\tskipFetchAll = true\n") // git fetch --all must not wake a box
	return b.String()
}

// insertSection appends section. If the last line of config has no newline, the result has none
// either, so that removeSection can restore the original.
func insertSection(config []byte, section string) []byte {
	if len(config) > 0 && config[len(config)-1] != '\n' {
		section = "\n" + strings.TrimSuffix(section, "\n")
	}
	return append(bytes.Clone(config), section...)
}

// removeSection removes every section that agentbox wrote for name, each up to the next section.
// An empty box matches any box.
func removeSection(config []byte, name, box string) []byte {
	start := []byte(header(name))
	for from := 0; ; {
		at := bytes.Index(config[from:], start)
		if at < 0 {
			return config
		}
		at += from
		mark, _, _ := bytes.Cut(config[at+len(start):], []byte("\n"))
		if at > 0 && config[at-1] != '\n' || box != "" && string(mark) != box {
			from = at + len(start)
			continue
		}
		end := len(config)
		if next := bytes.Index(config[at+len(start):], []byte("\n[")); next >= 0 {
			end = at + len(start) + next + 1
		}
		// Restore the original exactly, even if its last line had no newline.
		if end == len(config) && config[end-1] != '\n' && at > 0 {
			at-- // the newline insertSection put before it
		}
		config = append(bytes.Clone(config[:at]), config[end:]...)
		from = at
	}
}

// lockWait bounds how long to wait for another git process to release the lock on the
// configuration. Git holds it for milliseconds, but a killed process leaves it forever.
const lockWait = 3 * time.Second

// editConfig changes the shared configuration file under git's own lock, so that no concurrent
// edit by git is lost. edit is called twice, the second time under the lock, and must be a pure
// function of its argument. The file is replaced by a rename, so readers see either the old or
// the new contents. If the configuration is a link, its target is changed.
func editConfig(ctx context.Context, repo Repo, edit func([]byte) []byte) error {
	path, err := filepath.EvalSymlinks(filepath.Join(repo.CommonDir, "config"))
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "cannot find the configuration of the repository at %s: %w", repo.Root, err)
	}
	// Usually the remote is already there, and taking the lock would only get in git's way.
	if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, edit(before)) {
		return nil
	}
	lock, err := lockFile(ctx, path+".lock")
	if err != nil {
		return err
	}
	err = rewrite(lock, path, edit)
	if err == nil {
		err = os.Rename(lock.Name(), path)
	}
	if err != nil {
		return errors.Join(unwritable(path, err), os.Remove(lock.Name()))
	}
	return nil
}

// rewrite writes the edited configuration to the lock file and closes it.
func rewrite(lock *os.File, path string, edit func([]byte) []byte) error {
	before, err := os.ReadFile(path)
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	fi, err := os.Stat(path)
	if err == nil {
		_, err = lock.Write(edit(before))
	}
	if err == nil {
		err = errors.Join(lock.Chmod(fi.Mode().Perm()), lock.Sync())
	}
	return errors.Join(err, lock.Close())
}

// lockFile creates path exclusively, as git does to take a lock. It waits up to lockWait for
// another process to remove it.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	deadline := time.Now().Add(lockWait)
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, unwritable(path, err)
		}
		if time.Now().After(deadline) {
			return nil, agentbox.Errorf(agentbox.Conflict, "another git process holds %s", path).
				WithHint("wait for it; if none runs, remove that file")
		}
		if !background.Sleep(ctx, 20*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}
