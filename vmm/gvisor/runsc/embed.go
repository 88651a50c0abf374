package runsc

import (
	"io/fs"
	"runtime"

	"agentbox/agentbox"
	"agentbox/agentbox/packed"
)

//go:generate sh build.sh

// embeddedIn is a program in the directory that the build embeds.
func embeddedIn(from fs.FS, program string) packed.Program {
	return packed.Program{From: from, Name: "embedded/" + program + "-linux-" + runtime.GOARCH}
}

// withoutGVisor says what a build without the programs lacks, in words that users know.
func withoutGVisor(err error) error {
	if agentbox.CodeOf(err) != agentbox.Missing {
		return err
	}
	return agentbox.Errorf(agentbox.Missing, "this agentbox was built without gVisor").WithHint("build with `make build`, or use --isolation microvm")
}
