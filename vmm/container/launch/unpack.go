//go:build linux

package launch

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// unpack fills an empty directory from a tar, with owners of this namespace. Devices are left out,
// which nobody but root of the host may make. No name leads out of the directory, and no link in it
// is followed.
func unpack(dir string, from io.Reader) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	type late struct {
		name string
		time time.Time
	}
	var dirs []late // their times change as long as something is made in them
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = unpackOne(root, h, r)
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeDir {
			dirs = append(dirs, late{h.Name, h.ModTime})
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := root.Chtimes(dirs[i].name, dirs[i].time, dirs[i].time); err != nil {
			return err
		}
	}
	return nil
}

func unpackOne(root *os.Root, h *tar.Header, r io.Reader) error {
	mode := h.FileInfo().Mode()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(h.Name, 0o700); err != nil && !errors.Is(err, os.ErrExist) { // the root exists
			return err
		}
	case tar.TypeReg:
		f, err := root.OpenFile(h.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	case tar.TypeSymlink:
		return errors.Join(root.Symlink(h.Linkname, h.Name), root.Lchown(h.Name, h.Uid, h.Gid))
	case tar.TypeLink:
		return root.Link(h.Linkname, h.Name)
	default:
		return nil
	}
	if err := root.Lchown(h.Name, h.Uid, h.Gid); err != nil {
		return err
	}
	if err := setAttributes(root, h); err != nil {
		return err
	}
	// After the owner, whose change drops setuid bits.
	return errors.Join(root.Chmod(h.Name, mode), root.Chtimes(h.Name, h.ModTime, h.ModTime))
}

// setAttributes sets extended attributes. Those that only the host's kernel may set are left out.
func setAttributes(root *os.Root, h *tar.Header) error {
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, "SCHILY.xattr.")
		if !ok {
			continue
		}
		path := filepath.Join(root.Name(), h.Name)
		if err := unix.Lsetxattr(path, name, []byte(value), 0); err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("attribute %s of %s: %w", name, h.Name, err)
		}
	}
	return nil
}
