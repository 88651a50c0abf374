//go:build !linux

package image

import "syscall"

// childAttributes put a program into a group of its own, which one signal reaches.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// mountTable is empty: mmdebstrap, which mounts, and mounts of single directories exist on Linux
// only.
func mountTable() ([]mounted, error) { return nil, nil }
