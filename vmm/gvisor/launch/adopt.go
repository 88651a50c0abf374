//go:build linux

package main

import (
	"agentbox/vmm/hostdir/give"
	"agentbox/vmm/nsinit"
)

// adopt gives everything in dir to a user of this namespace. Nobody else uses dir any more.
func adopt(dir string, user int) error {
	if err := nsinit.BecomeRoot(); err != nil {
		return err
	}
	return give.Tree(dir, user)
}
