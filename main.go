// Command agentbox gives coding agents isolated, resettable workstations on the machines a team
// already has.
package main

import (
	"os"

	"agentbox/agentbox/cli"
)

func main() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }
