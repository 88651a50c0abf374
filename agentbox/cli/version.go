package cli

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox/programs"
)

// version is set by the Makefile (-X); "dev" is a build by go build or go test.
var version = "dev"

// buildID identifies a build, even without a version, because the daemon must be of the client's
// build. It is the version and a checksum of our own file's size and modification time, so that the
// file need not be read: a rebuilt program has another time.
func buildID() string {
	path, err := os.Executable()
	if err != nil {
		return version
	}
	info, err := os.Stat(path)
	if err != nil {
		return version
	}
	h := fnv.New32a()
	fmt.Fprint(h, info.Size(), info.ModTime().UnixNano())
	return fmt.Sprintf("%s+%08x", version, h.Sum32())
}

// versionCommand is `version`: it prints what a bug report needs, namely the version and the gVisor
// release in the binary.
func (a *app) versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Category: catHost, Usage: "print the version",
		Action: func(context.Context, *cli.Command) error {
			gvisor, err := programs.GVisor()
			if a.json {
				return a.printJSON(map[string]string{
					"version": version, "build": buildID(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "gvisor": gvisor,
				})
			}
			fmt.Fprintf(a.stdout, "agentbox %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			if err != nil {
				fmt.Fprintln(a.stdout, errorText(err))
				return nil
			}
			fmt.Fprintf(a.stdout, "gVisor %s, embedded\n", gvisor)
			return nil
		},
	}
}
