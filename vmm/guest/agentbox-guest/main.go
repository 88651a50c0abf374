//go:build linux

// Command agentbox-guest is the first process of every guest, and nothing else. agentbox embeds it
// and puts it into the initramfs of virtual machines and the root of gVisor sandboxes. All it does
// is in vmm/guest/agent; vmm/guest/build-agent.sh builds it, vmm/guest carries it. It is static,
// since an image may have no library, and small, since it is in the memory of every box:
// agentbox/imports_test.go lists what it may import.
package main

import (
	"fmt"
	"os"

	"agentbox/vmm/guest/agent"
)

// main is one of four programs. Under the name of a server it serves one SSH subsystem on its
// standard files, as a process of the user; the agent starts itself for that, since an image may
// have no such program. As process 1 it is the agent of a virtual machine or, with the argument of
// vmm/gvisor, of a sandbox; neither returns.
func main() {
	servers := map[string]func() error{agent.SFTPName: agent.ServeSFTP, agent.ExportName: agent.ServeExport}
	if serve := servers[os.Args[0]]; serve != nil {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "agentbox-guest is the first process of a guest machine and cannot run elsewhere")
		os.Exit(2)
	}
	if len(os.Args) > 1 && os.Args[1] == agent.GVisorMode {
		agent.MainGVisor()
	}
	agent.Main()
}
