//go:build !linux

package image

import "syscall"

// childAttributes start a program in a process group of its own.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// mountTable is empty: only Linux has mmdebstrap and mounts of single directories.
func mountTable() ([]mounted, error) { return nil, nil }
