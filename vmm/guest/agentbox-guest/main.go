//go:build linux

// Command agentbox-guest is the first process of every guest, and nothing else: it is embedded in
// agentbox, and put into the initramfs of virtual machines or shown to gVisor's.
package main

import (
	"fmt"
	"os"

	"agentbox/vmm/guest/agent"
)

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
