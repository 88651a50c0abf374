//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/gvisor/plan"
)

// What package fusefile says: importing it would bring a library into this small program.
const (
	// allow_other is for the guest's own users: root mounts, and without it only root could read.
	fuseDevice = "/dev/fuse"
	fuseType   = "fuse"
	fuseData   = ",rootmode=100444,user_id=0,group_id=0,allow_other"
)

// openImage opens the device of a file that the other side serves. The kernel wants it opened in
// the namespace that mounts. It opens nothing where the image is a plain file.
func (l *launcher) openImage() (err error) {
	if l.plan.Image == "" {
		return nil
	}
	l.image, err = os.OpenFile(fuseDevice, os.O_RDWR|unix.O_CLOEXEC, 0)
	return err
}

// mountImage puts the file into the root, and hands over its device: from here on every read of it
// waits for the other side. Our own descriptor is closed then, so that the file system ends with
// the supervisor's.
func (l *launcher) mountImage(root string) error {
	if l.image == nil {
		return nil
	}
	defer l.image.Close()
	fd := int(l.image.Fd())
	target := filepath.Join(root, l.plan.Image)
	if err := makeTarget(target, false); err != nil {
		return err
	}
	data := "fd=" + strconv.Itoa(fd) + fuseData
	if err := syscall.Mount("image", target, fuseType, syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, data); err != nil {
		return err
	}
	line, err := json.Marshal(plan.Event{Image: true})
	if err != nil {
		return err
	}
	return os.NewSyscallError("sendmsg", unix.Sendmsg(plan.FDControl, append(line, '\n'), unix.UnixRights(fd), nil, 0))
}
