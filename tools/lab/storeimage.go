package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"agentbox/agentbox"
)

// errEnough ends the walk when enough files are collected.
var errEnough = errors.New("enough")

// fileRoots are directories with real files of a machine: programs, libraries, texts.
var fileRoots = []string{"/usr/lib", "/usr/bin", "/usr/share", "/usr/local"}

// makeDiskImage makes a sparse ext4 image of size bytes with about files bytes of this machine's
// own files, to within one percent. It copies them to the directory stage first, which it makes and
// removes. It uses real files, because compression and duplicates decide how a store performs.
// Therefore figures of machines with different distributions differ. The error is Missing without
// mke2fs.
func makeDiskImage(ctx context.Context, image, stage string, size, files int64) error {
	if err := os.Mkdir(stage, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	left, n := files, 0
	for _, root := range fileRoots {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return nil // skip what is not readable
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if info, err := e.Info(); err != nil || info.Size() > left {
				return nil
			}
			copied, err := copyFile(path, filepath.Join(stage, strconv.Itoa(n)))
			if errors.Is(err, fs.ErrPermission) {
				return nil
			}
			n++
			if left -= copied; err == nil && left < files/100 {
				err = errEnough
			}
			return err
		})
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return err
		}
	}
	mke2fs := "mke2fs"
	if _, err := exec.LookPath(mke2fs); err != nil {
		mke2fs = "/sbin/mke2fs" // often not in PATH
	}
	out, err := exec.CommandContext(ctx, mke2fs, "-q", "-t", "ext4", "-d", stage, image, fmt.Sprintf("%dK", size>>10)).CombinedOutput()
	if err != nil {
		return agentbox.Errorf(agentbox.Missing, "mke2fs: %w: %.200s", err, out).WithHint("apt-get install e2fsprogs")
	}
	return nil
}

// copyFile copies the content alone and returns the number of bytes. to must not exist.
func copyFile(from, to string) (int64, error) {
	src, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(dst, src)
	return n, errors.Join(err, dst.Close())
}
