package container

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox/durable"
	"agentbox/vmm/container/plan"
	"agentbox/vmm/image/rootfs"
)

// unpacked returns the directory with the files of an image, for a user who may not mount it. They
// are unpacked once, and removed when another image is unpacked after the image has gone. Machines
// share what the host caches of them. One process unpacks while others wait.
func (d *Driver) unpacked(ctx context.Context, image string) (string, error) {
	info, err := os.Stat(image)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Append(nil, image, info.Size(), info.ModTime().UnixNano()))
	dir := d.path(imagesDir, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := errors.Join(os.MkdirAll(d.path(imagesDir), 0o755), os.Chmod(d.path(imagesDir), 0o755)); err != nil {
		return "", err
	}
	release, err := durable.Lock(ctx, d.path(imagesDir, "lock"), nil)
	if err != nil {
		return "", err
	}
	defer release()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := d.removeStale(ctx); err != nil {
		return "", err
	}
	tmp := dir + ".part"
	if err := errors.Join(d.remove(ctx, tmp), os.Mkdir(tmp, 0o755), os.WriteFile(dir+sourceExt, []byte(image), 0o600)); err != nil {
		return "", err
	}
	if err := d.unpack(ctx, tmp, image); err != nil {
		return "", errors.Join(err, d.remove(context.WithoutCancel(ctx), tmp))
	}
	return dir, os.Rename(tmp, dir)
}

// removeStale removes unpacked images whose image is not here any more.
func (d *Driver) removeStale(ctx context.Context) error {
	sources, err := filepath.Glob(d.path(imagesDir, "*"+sourceExt))
	for _, source := range sources {
		image, readErr := os.ReadFile(source)
		if readErr != nil {
			continue
		}
		if _, statErr := os.Stat(string(image)); errors.Is(statErr, fs.ErrNotExist) {
			err = errors.Join(err, d.remove(ctx, strings.TrimSuffix(source, sourceExt)), os.Remove(source))
		}
	}
	return err
}

// unpack reads the image here, and has its files made by a process that has the box's ids.
func (d *Driver) unpack(ctx context.Context, dir, image string) error {
	f, err := os.Open(image)
	if err != nil {
		return err
	}
	defer f.Close()
	tree, err := rootfs.Read(ctx, f, rootfs.DefaultLimits, time.Unix(0, 0))
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	written := make(chan error, 1)
	go func() {
		tw := &tarWriter{Writer: tar.NewWriter(w), first: map[*rootfs.Inode]string{}}
		err := tw.put(".", tree.Root())
		if err == nil {
			err = tw.Close()
		}
		written <- errors.Join(err, w.Close())
	}()
	err = d.errand(ctx, plan.Plan{Unpack: dir}, r)
	r.Close() // so that the writer ends
	return errors.Join(err, <-written)
}

// tarWriter writes a tree as a tar. first has the first name of each file.
type tarWriter struct {
	*tar.Writer
	first map[*rootfs.Inode]string
}

func (t *tarWriter) put(name string, ino *rootfs.Inode) error {
	if first, again := t.first[ino]; again && !ino.IsDir() {
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: first})
	}
	t.first[ino] = name
	h := &tar.Header{
		Name: name, Mode: int64(ino.Mode & 0o7777), Uid: int(ino.UID), Gid: int(ino.GID), ModTime: ino.ModTime, Linkname: ino.Target,
		Format: tar.FormatPAX, PAXRecords: map[string]string{},
	}
	for key, value := range ino.Xattrs {
		h.PAXRecords["SCHILY.xattr."+key] = value
	}
	switch ino.Type() {
	case rootfs.TypeDir:
		h.Typeflag = tar.TypeDir
	case rootfs.TypeSymlink:
		h.Typeflag = tar.TypeSymlink
	case rootfs.TypeRegular:
		h.Typeflag, h.Size = tar.TypeReg, ino.Size
	default:
		return nil // devices: no process of the box's ids may make one
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	if ino.Content != nil {
		if err := t.content(ino); err != nil {
			return err
		}
	}
	for _, base := range ino.Names() {
		if err := t.put(path.Join(name, base), ino.Child(base)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tarWriter) content(ino *rootfs.Inode) error {
	r, err := ino.Content.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(t, r)
	return err
}
