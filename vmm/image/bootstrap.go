package image

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentbox/agentbox"
)

// bootstrapGrace is how long mmdebstrap may take to clean up after SIGTERM.
const bootstrapGrace = 20 * time.Second

// bootstrapScript runs a program and forwards SIGTERM to all of its processes. mmdebstrap cleans up
// if they all get it; if only mmdebstrap itself does, it waits for its children. The shell gets the
// signal from us, or from the kernel when we die.
const bootstrapScript = `trap 'trap "" TERM; kill -TERM 0; wait; exit 143' TERM
{ "$@" <&3 3<&- & } 3<&0
wait $!`

// bootstrap runs mmdebstrap, with sources as its standard input, and applies the archive while it
// is written, so that the archive is never on the disk as a whole. When ctx ends, mmdebstrap gets
// SIGTERM, and SIGKILL after bootstrapGrace. What it leaves is removed in any case. The error is
// that of the caller's context, else what mmdebstrap said, else that of the archive.
func (b *build) bootstrap(ctx context.Context, program string, args []string, sources, suite string) (err error) {
	tmp, err := b.bootstrapDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeBootstrap(b.dir)) }()
	caller := ctx
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", bootstrapScript, "sh", program}, args...)...)
	cmd.Env = bootstrapEnv(os.Environ(), tmp)
	cmd.Stdin = strings.NewReader(sources)
	// The program dies with the thread that starts it, so that it does not survive this process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = childAttributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = bootstrapGrace
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	log := &bootstrapLog{progress: b.progress}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return agentbox.Errorf(agentbox.Missing, "start mmdebstrap: %w", err)
	}
	applied := b.tree.ApplyTar(ctx, bufio.NewReaderSize(stdout, 1<<20), b.spool)
	if applied == nil {
		_, applied = io.Copy(io.Discard, stdout) // padding after the archive, so that the writer does not fail
	} else {
		cancel()
	}
	waited := cmd.Wait()
	switch {
	case caller.Err() != nil:
		return caller.Err()
	case waited != nil && (applied == nil || log.failed()):
		return log.explain(waited, suite, tmp)
	}
	return hostError(applied)
}

// systemPath is where Debian has the programs that mmdebstrap and its helpers run.
const systemPath = "/usr/sbin:/usr/bin:/sbin:/bin"

// bootstrapEnv returns the environment of mmdebstrap: the caller's, with tmp for temporary files.
// Debian's own programs come first in PATH. mmdebstrap starts a Python filter for each package, and
// the wrapper of a version manager (pyenv, asdf) would add some 10 seconds to a build.
func bootstrapEnv(caller []string, tmp string) []string {
	path := systemPath
	for _, v := range caller {
		if dirs, ok := strings.CutPrefix(v, "PATH="); ok && dirs != "" {
			path = systemPath + ":" + dirs
		}
	}
	return append(slices.Clone(caller), "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "TMPDIR="+tmp, "PATH="+path,
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", epoch.Unix()))
}

// bootstrapLink is a link in a build's directory to the directory in which mmdebstrap unpacks.
const bootstrapLink = "bootstrap"

// bootstrapDir makes the directory in which mmdebstrap unpacks. It cannot be in the store, since
// the user's home is not accessible from a user namespace. Others than the owner may enter it,
// because the ids of a user namespace are others. Its name cannot be guessed, and it must not
// exist.
func (b *build) bootstrapDir() (string, error) {
	const needed = 3 << 30
	parent := os.TempDir()
	for _, dir := range []string{parent, "/var/tmp"} {
		var st syscall.Statfs_t
		if syscall.Statfs(dir, &st) == nil && int64(st.Bavail)*int64(st.Bsize) >= needed {
			parent = dir
			break
		}
	}
	// The link comes first, so that clear finds the directory whenever this process dies.
	dir := filepath.Join(parent, "agentbox-"+filepath.Base(b.dir))
	if err := os.Symlink(dir, filepath.Join(b.dir, bootstrapLink)); err != nil {
		return "", hostError(err)
	}
	return dir, hostError(errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)))
}

// removeBootstrap removes what the build in dir has unpacked, if there is a link. It never enters a
// mount, below which may be the host's own /sys and /dev/shm. The link goes last, so that what
// could not be removed is found again.
func removeBootstrap(dir string) error {
	link := filepath.Join(dir, bootstrapLink)
	tmp, err := os.Readlink(link)
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(tmp); err == nil {
		tmp = real // as in the table of mounts
	}
	if err := refuseMounts(tmp); err != nil {
		return err
	}
	if err := os.RemoveAll(tmp); err != nil {
		// The files belong to ids of a user namespace, which mmdebstrap can enter.
		if out, err := exec.Command("mmdebstrap", "--unshare-helper", "rm", "-rf", "--one-file-system", tmp).CombinedOutput(); err != nil {
			return fmt.Errorf("remove %s: %w %s", tmp, err, out)
		}
	}
	return os.Remove(link)
}

// refuseMounts fails if anything is mounted below a directory that is to be removed.
func refuseMounts(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return fmt.Errorf("remove %s: is anything mounted there? %w", dir, err)
	}
	if len(mounts) > 0 {
		return agentbox.Errorf(agentbox.Conflict, "a build that died left %s mounted, so %s is not removed", mounts[0], dir).
			WithHint("unmount everything below it with umount, then try again")
	}
	return nil
}
