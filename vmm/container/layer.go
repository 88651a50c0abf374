package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// mountImage makes a detached mount of an image, for root. Machines of one image share a loop
// device, and so one file system and what is cached of it. The kernel frees the device with the last
// mount.
func mountImage(image string) (*os.File, error) {
	device, err := loopOf(image)
	if err != nil {
		return nil, fmt.Errorf("a loop device for %s: %w", image, err)
	}
	defer device.Close()
	system, err := unix.Fsopen("erofs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("this kernel mounts no erofs: %w", err)
	}
	defer unix.Close(system)
	err = errors.Join(unix.FsconfigSetString(system, "source", device.Name()), unix.FsconfigSetFlag(system, "ro"))
	if err == nil {
		err = unix.FsconfigCreate(system)
	}
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", image, err)
	}
	fd, err := unix.Fsmount(system, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, os.NewSyscallError("fsmount", err)
	}
	return os.NewFile(uintptr(fd), image), nil
}

// loopOf returns the loop device of an image, a new one if there is none. It is read-only, and goes
// when nobody has it open or mounted.
func loopOf(image string) (*os.File, error) {
	file, err := os.Open(image)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.New("not a file of this host")
	}
	if device := existingLoop(st); device != nil {
		return device, nil
	}
	return newLoop(file)
}

// existingLoop looks for a device of ours with the file. Other processes may free it meanwhile, so
// it is asked when it is open.
func existingLoop(want *syscall.Stat_t) *os.File {
	all, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, path := range all {
		name := strings.Split(path, "/")[3]
		device, err := os.Open("/dev/" + name)
		if err != nil {
			continue
		}
		info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
		const ours = unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR
		if err == nil && info.Inode == want.Ino && info.Device == want.Dev && info.Offset == 0 && info.Flags&ours == ours {
			return device
		}
		device.Close()
	}
	return nil
}

// maxLoopTries bounds how often a free device is taken by somebody else meanwhile.
const maxLoopTries = 32

func newLoop(file *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range maxLoopTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, os.NewSyscallError("LOOP_CTL_GET_FREE", err)
		}
		device, err := os.OpenFile("/dev/loop"+strconv.Itoa(n), os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(file.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR}}
		copy(config.Info.File_name[:len(config.Info.File_name)-1], file.Name())
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, os.NewSyscallError("LOOP_CONFIGURE", err)
		}
	}
	return nil, fs.ErrExist
}
