//go:build !linux

package image

import "syscall"

// childAttributes put a program into a group of its own, which one signal reaches.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// mountsBelow lists what is mounted below a directory: mmdebstrap, which mounts, exists on Linux only.
func mountsBelow(string) ([]string, error) { return nil, nil }
