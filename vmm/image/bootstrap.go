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
	"strings"
	"syscall"
	"time"

	"agentbox/agentbox"
)

// bootstrapGrace is how long a stopped mmdebstrap may take to unmount and remove what it made.
const bootstrapGrace = 20 * time.Second

// bootstrapScript runs a program so that one SIGTERM reaches all of its processes: mmdebstrap
// cleans up when they all get it, and waits for its children when it alone does. The shell gets it
// from us, or from the kernel when we die.
const bootstrapScript = `trap 'trap "" TERM; kill -TERM 0; wait; exit 143' TERM
{ "$@" <&3 3<&- & } 3<&0
wait $!`

// bootstrap runs mmdebstrap and applies the archive it writes while it writes it. The archive never
// touches the disk as a whole. sources go to mmdebstrap's standard input. When ctx ends the program
// gets SIGTERM, and after bootstrapGrace SIGKILL; what it leaves is removed either way. Which error
// counts: the caller's cancellation, then what mmdebstrap said, then ours.
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
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "TMPDIR="+tmp,
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", epoch.Unix()))
	cmd.Stdin = strings.NewReader(sources)
	// The thread stays locked because the program ends with it, so that it does not survive this
	// process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = childAttributes()
	// By the script above it reaches every process of the group.
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
		_, applied = io.Copy(io.Discard, stdout) // what follows the archive's end, so that the writer is not broken off
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

// bootstrapLink, in a build's directory, points to the directory in which mmdebstrap unpacks.
const bootstrapLink = "bootstrap"

// bootstrapDir makes the directory in which mmdebstrap unpacks. The store is no place for it: in a
// user namespace the user's own home is closed to it. The link lets it be found when this process
// dies. Others than its owner may enter it, since a user namespace's ids are others. It has a name
// that nobody can guess beforehand, and must not exist.
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
	// Linked first: what is made after that is found, whenever this process ends.
	dir := filepath.Join(parent, "agentbox-"+filepath.Base(b.dir))
	if err := os.Symlink(dir, filepath.Join(b.dir, bootstrapLink)); err != nil {
		return "", hostError(err)
	}
	return dir, hostError(errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)))
}

// removeBootstrap removes what the build in dir has unpacked, if anything is left of it. It never
// enters a mount: below one lie the host's own /sys and /dev/shm, and removing "the rest of the
// build" would empty them. It does nothing where there is no link. The link goes last, so that what
// could not be removed is found again.
func removeBootstrap(dir string) error {
	link := filepath.Join(dir, bootstrapLink)
	tmp, err := os.Readlink(link)
	if err != nil {
		return nil
	}
	// The temporary directory may itself be reached by a link.
	if real, err := filepath.EvalSymlinks(tmp); err == nil {
		tmp = real // as the table of mounts names it
	}
	if err := refuseMounts(tmp); err != nil {
		return err
	}
	if err := os.RemoveAll(tmp); err != nil {
		// Its files belong to ids of a user namespace, which mmdebstrap knows how to become.
		if out, err := exec.Command("mmdebstrap", "--unshare-helper", "rm", "-rf", "--one-file-system", tmp).CombinedOutput(); err != nil {
			return fmt.Errorf("remove %s: %w %s", tmp, err, out)
		}
	}
	return os.Remove(link)
}

// refuseMounts says what keeps a directory from being removed as a whole; it removes nothing.
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
