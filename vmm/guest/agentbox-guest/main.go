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

	"agentbox/vmm/container/launch"
	"agentbox/vmm/container/plan"
	"agentbox/vmm/guest/agent"
	"agentbox/vmm/guest/capture"
)

// main is one of several programs. Under the name of a server it serves one SSH subsystem on its
// standard files, as a process of the user, or becomes a service in its own root; the agent starts
// itself for that, since an image may have no such program. As process 1 it is the agent of a virtual
// machine or, with an argument of vmm/gvisor or vmm/container, of a sandbox or a container, or what
// starts a container; none returns.
func main() {
	servers := map[string]func() error{agent.SFTPName: agent.ServeSFTP, agent.ExportName: agent.ServeExport, agent.WatchName: agent.ServeWatch, agent.ContainerName: agent.EnterContainer, capture.Name: capture.Serve, capture.TakeName: capture.ServeTake}
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
	mode := append(os.Args, "", "")[1]
	switch mode {
	case agent.GVisorMode:
		agent.MainGVisor()
	case plan.Mode:
		launch.Main()
	case plan.AgentMode:
		agent.MainContainer(append(os.Args, "")[2])
	}
	agent.Main()
}
