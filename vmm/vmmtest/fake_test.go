package vmmtest_test

import (
	"testing"

	"agentbox/vmm"
	"agentbox/vmm/vmmtest"
)

func TestFake(t *testing.T) {
	vmmtest.Run(t, func(t *testing.T) vmmtest.Harness {
		d := &vmmtest.Fake{}
		return vmmtest.Harness{
			Driver:  d,
			Spec:    vmm.Spec{CPUs: 1, Memory: 64 << 20, Disk: 64 << 20},
			Connect: d.Connect,
			Crash:   d.Crash,
		}
	})
}
