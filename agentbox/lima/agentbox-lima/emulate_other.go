//go:build !linux

package main

import "context"

// emulate is for hosts with KVM.
func emulate(context.Context, string) (slow bool, err error) { return false, nil }
