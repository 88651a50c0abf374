//go:build linux

package agent

import (
	"bytes"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FS_IOC_GETFSLABEL and FS_IOC_SETFSLABEL of linux/fs.h: _IOR and _IOW(0x94, 49 and 50, char[256]).
const (
	labelMax    = 256
	getLabelReq = 2<<30 | labelMax<<16 | 0x94<<8 | 49
	setLabelReq = 1<<30 | labelMax<<16 | 0x94<<8 | 50
)

// getLabel reads the label of fd's file system; it fails if kernel or file system has none.
func getLabel(fd int) (string, error) {
	var label [labelMax]byte
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), getLabelReq, uintptr(unsafe.Pointer(&label))); errno != 0 {
		return "", fmt.Errorf("read the label: %w", errno)
	}
	text, _, _ := bytes.Cut(label[:], []byte{0})
	return string(text), nil
}

// setLabel changes the label while the file system is mounted. It cuts a text that is too long.
func setLabel(fd int, text string) error {
	var label [labelMax]byte
	copy(label[:labelMax-1], text)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), setLabelReq, uintptr(unsafe.Pointer(&label))); errno != 0 {
		return fmt.Errorf("set the label: %w", errno)
	}
	return nil
}
