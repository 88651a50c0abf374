// Command agentbox-supervisor is the process behind one box. The daemon starts it, with its
// configuration on standard input and its files open (supervisor.Main); it cannot be run by hand.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"agentbox/agentbox/place/local/supervisor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := supervisor.Main(ctx, os.Stdin)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "agentbox:", err)
		os.Exit(1)
	}
}
