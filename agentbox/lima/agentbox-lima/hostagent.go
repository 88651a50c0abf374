package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"github.com/lima-vm/lima/v2/pkg/hostagent"
	"github.com/lima-vm/lima/v2/pkg/hostagent/api/server"
	"github.com/lima-vm/lima/v2/pkg/store"
	"github.com/sirupsen/logrus"
)

// hostAgent is Lima's verb of this name, with its flags: Lima starts it as a child of this program
// (instance.StartWithPaths), and it stays until the machine ends.
func hostAgent(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("hostagent", flag.ContinueOnError)
	pidFile := flags.String("pidfile", "", "")
	socket := flags.String("socket", "", "")
	gui := flags.Bool("run-gui", false, "")
	guestAgent := flags.String("guestagent", "", "")
	nerdctl := flags.String("nerdctl-archive", "", "")
	progress := flags.Bool("progress", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *gui { // vz shows its window from the main thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	if pid, err := store.ReadPIDFile(*pidFile); err != nil || pid != 0 {
		return fmt.Errorf("another host agent runs, process %d (%s): %w", pid, *pidFile, err)
	}
	if err := os.WriteFile(*pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return err
	}
	defer os.Remove(*pidFile)
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	logrus.SetLevel(logrus.DebugLevel) // Lima reads its own log
	agent, err := hostagent.New(ctx, flags.Arg(0), os.Stdout, end,
		hostagent.WithGuestAgentBinary(*guestAgent), hostagent.WithNerdctlArchive(*nerdctl), hostagent.WithCloudInitProgress(*progress))
	if err != nil {
		return err
	}
	os.Remove(*socket) // of one that was killed
	l, err := net.Listen("unix", *socket)
	if err != nil {
		return err
	}
	routes := http.NewServeMux()
	server.AddRoutes(routes, &server.Backend{Agent: agent})
	api := &http.Server{Handler: routes}
	go api.Serve(l) // ends with Close
	defer api.Close()
	return agent.Run(ctx)
}
