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
	"agentbox/agentbox/git"

	"al.essio.dev/pkg/shellescape"
)

// A box is a git remote of the checkout it came from. The remote's URL looks local, and its
// uploadpack and receivepack are a command of ours, which git runs through the shell in place of
// the program it would run on the path:
//
//	[AGENTBOX_HOME=DIR] BINARY git-serve BOX git-upload-pack '/agentbox/NAME'
//
// That command runs the service on the workspace in the box and connects standard input and output;
// it ignores the path, and passes on the variable GIT_PROTOCOL when it is set. Against ext:: URLs
// this has the merit that nothing has to be allowed that git forbids by default; against ssh, that
// no file of the user's is touched.

// markKey in a remote's section says that agentbox made it, and for which box.
const markKey = "agentbox"

// Remote is the git remote of a box. It is written as one section of the configuration, and known
// again by its first two lines.
type Remote struct {
	Name   string // of the remote: the box's name
	Box    string // what git-serve is given: the box's id, which is never used twice
	Binary string // absolute path of agentbox
	Home   string // AGENTBOX_HOME of the daemon the box belongs to; "" for the default
}

// What a fetch would not find is given refs in the box before it is served: a detached HEAD, and
// the branches and HEADs of its submodules, whose objects are put into the repository that is
// fetched from.
const (
	DetachedRefs = "refs/agentbox/detached/" // HEAD
	ModuleRefs   = "refs/agentbox/modules/"  // PATH/HEAD, PATH/BRANCH
)

// remoteName is stricter than git: the name is part of refs, and of a section's header.
var remoteName = agentbox.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// AddRemote writes the remote of a box into the configuration of the checkout, in place of what
// agentbox wrote there for an earlier box of that name. An *agentbox.Error of code Exists says that
// the name is taken by a remote of the user's own, which is never touched. It costs one git
// process, and writes nothing when nothing changed. A name or path that could not be quoted for git
// and the shell is an error of code Invalid; a configuration that stays locked, of code Conflict.
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

// RemoveRemote takes the remote of a box out of the configuration and leaves everything else as it
// was, byte for byte. What was fetched stays under refs/remotes, for it may be the only copy of
// work that was done in the box. It is not an error when there is no such remote, or when it
// belongs to the user or another box. box "" stands for any box.
func RemoveRemote(ctx context.Context, repo Repo, name, box string) error {
	return editConfig(ctx, repo, func(config []byte) []byte { return removeSection(config, name, box) })
}

// checkFree fails when a remote of that name exists and is not ours, in whatever file it was
// configured.
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

// header and mark are the first two lines of every section we write, by which we know it again.
func header(name string) string { return "[remote \"" + name + "\"]\n\t" + markKey + " = " }

// section is the text of the remote. Everything in it passes two parsers, git's and the shell's,
// and is quoted for both.
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
	b.WriteString("\ttagOpt = --no-tags\n") // a box must not put names into the host's refs/tags
	fmt.Fprintf(&b, "\treceivepack = %s\n", git.Quote(run+" git-receive-pack"))
	fmt.Fprintf(&b, "\tskipFetchAll = true\n") // git fetch --all must not wake a box
	return b.String()
}

// insertSection appends. A file whose last line has no newline keeps it that way, so that removal
// can undo it.
func insertSection(config []byte, section string) []byte {
	if len(config) > 0 && config[len(config)-1] != '\n' {
		section = "\n" + strings.TrimSuffix(section, "\n")
	}
	return append(bytes.Clone(config), section...)
}

// removeSection takes out every section we wrote for name, up to the next section; box "" stands
// for any box.
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
		// Byte for byte as it was before, also where its last line had no end.
		if end == len(config) && config[end-1] != '\n' && at > 0 {
			at-- // the newline insertSection put before it
		}
		config = append(bytes.Clone(config[:at]), config[end:]...)
		from = at
	}
}

// lockWait is how long another git may hold the lock on the configuration before we give up. git
// holds it for milliseconds; one that was killed leaves it for ever.
const lockWait = 3 * time.Second

// editConfig changes the shared configuration file under git's own lock, so that no edit of git's
// is lost. edit is called twice, the second time under the lock, and must be a function of its
// argument alone. The file is replaced by a rename, as git does, so a reader sees the old or the
// new. Where the configuration is a link, the file that it leads to changes.
func editConfig(ctx context.Context, repo Repo, edit func([]byte) []byte) error {
	path, err := filepath.EvalSymlinks(filepath.Join(repo.CommonDir, "config"))
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "cannot find the configuration of the repository at %s: %w", repo.Root, err)
	}
	// Most often the remote is there, and a lock would only be in git's way.
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

// rewrite fills the lock file with the edited configuration, and closes it.
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

// lockFile makes path, which must not exist, and waits for another to remove it: that is git's
// lock.
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
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
