package main

import (
	"context"
	"os"
	"os/exec"
	"strings"

	"github.com/sirupsen/logrus"

	"agentbox/agentbox/lima"
)

// emulate has QEMU emulate the processor where KVM can be opened but does not run, as on some hosts
// that are virtual machines themselves. Lima looks only whether /dev/kvm exists, and QEMU then ends, or
// runs a guest that never comes up: who starts us knows the latter.
func emulate(ctx context.Context, arch string) (slow bool, err error) {
	qemu, machine := "qemu-system-"+arch, "virt"
	if arch == "x86_64" {
		machine = "q35,vmport=off"
	}
	if _, err := exec.LookPath(qemu); err != nil {
		return false, err
	}
	try := exec.CommandContext(ctx, qemu, "-accel", "kvm", "-machine", machine, "-cpu", "host", "-nodefaults", "-display", "none", "-S", "-monitor", "stdio")
	try.Stdin = strings.NewReader("quit\n")
	if os.Getenv(lima.Emulate) == "" && try.Run() == nil {
		return false, nil
	}
	logrus.Info("KVM does not run here, so the machine is emulated: it computes slowly")
	return true, os.Setenv("QEMU_SYSTEM_"+strings.ToUpper(arch), qemu+" -machine "+machine+" -accel tcg,thread=multi")
}
