//go:build linux

package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/agentbox/git/objects"
)

// TakeName is the program name under which the guest agent takes a small pack into the repository of its
// directory: files it writes itself, all else git does. The first argument is a command that does the same.
const TakeName = "agentbox-take"

// ServeTake is the program. It says "done" if all of the pack is there, and becomes the command that does
// the same if it cannot take it, with the pack as input.
func ServeTake() error {
	// Git removes old ones.
	dir, err := os.MkdirTemp(filepath.Join(".git", "objects"), "tmp_objdir-agentbox-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	pack, err := os.CreateTemp(dir, "pack-")
	if err != nil {
		return err
	}
	if err := take(io.TeeReader(os.Stdin, pack), dir); err == nil {
		_, err = fmt.Println("done")
		return err
	}
	if _, err := io.Copy(pack, os.Stdin); err != nil || len(os.Args) < 2 {
		return errors.Join(err, errors.New("there is no command that does the same"))
	}
	_, err = pack.Seek(0, io.SeekStart)
	if err = errors.Join(err, unix.Dup3(int(pack.Fd()), 0, 0), os.RemoveAll(dir)); err != nil {
		return err
	}
	program, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = syscall.Exec(program, os.Args[1:], os.Environ())
	}
	return err
}

// take takes a pack, by way of a directory.
func take(pack io.Reader, by string) error {
	all, err := filepath.Abs(filepath.Join(".git", "objects"))
	if err != nil {
		return err
	}
	there, err := objects.Open(all)
	if err != nil {
		return err
	}
	defer there.Close()
	var structure, files []objects.Object
	most := roomToHold()
	err = objects.ReadPack(pack, most, func(id objects.ID) (objects.Object, error) { return there.Read(id, most) }, func(o objects.Object) error {
		if o.Kind == objects.Blob {
			files = append(files, o)
		} else {
			structure = append(structure, o)
		}
		return nil
	})
	if err != nil {
		return err
	}
	failed := make([]error, len(files))
	each(len(files), func(i int) { _, failed[i] = objects.WriteLoose(by, files[i], false) })
	if err = errors.Join(failed...); err == nil {
		err = objects.MoveLoose(by, all)
	}
	if err != nil {
		return err
	}
	var rest bytes.Buffer
	if err := objects.WritePack(&rest, structure); err != nil {
		return err
	}
	return runGit(&rest, "-c", "core.compression=0", "unpack-objects", "-q")
}

// runGit runs git in the repository of this directory, as the command that does the same does.
func runGit(stdin io.Reader, args ...string) error {
	cmd := exec.Command("git", append(append([]string{}, options...), args...)...)
	cmd.Stdin, cmd.Env = stdin, append(os.Environ(), "LC_ALL=C", "GIT_DIR=.git", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1")
	return cmd.Run()
}
