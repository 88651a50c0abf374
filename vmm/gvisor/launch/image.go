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
	"agentbox/vmm/nsinit"
)

// The same as in package fusefile, whose library would make this program large.
const (
	// Without allow_other, only root of the guest could read.
	fuseDevice = "/dev/fuse"
	fuseType   = "fuse"
	fuseData   = ",rootmode=100444,user_id=0,group_id=0,allow_other"
)

// openImage opens /dev/fuse, in the namespace that mounts, as the kernel requires. It does nothing
// if the image is a plain file.
func (l *launcher) openImage() (err error) {
	if l.plan.Image == "" {
		return nil
	}
	l.image, err = os.OpenFile(fuseDevice, os.O_RDWR|unix.O_CLOEXEC, 0)
	return err
}

// mountImage mounts the file and sends its device to the supervisor, which serves every read from
// then on. It closes its own descriptor, so that the file system ends with the supervisor's.
func (l *launcher) mountImage(root string) error {
	if l.image == nil {
		return nil
	}
	defer l.image.Close()
	fd := int(l.image.Fd())
	target := filepath.Join(root, l.plan.Image)
	if err := nsinit.MakeTarget(target, false); err != nil {
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
