// Command agentbox-check runs one WebAssembly module over the files of a commit, for package check,
// which starts it confined; it cannot be run by hand. Standard input has a check.Prepare in a line and,
// perhaps much later, a check.Spec in the next, and then git's listing. Descriptor 3 is the module, 4
// and 5 are the answers and questions of a git that reads objects. What the module writes goes to
// standard output, the check.Report to standard error.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/check"
	"agentbox/agentbox/check/module"
)

func main() {
	go reportOvertime()
	report, err := run(context.Background())
	if err == nil {
		err = json.NewEncoder(os.Stderr).Encode(report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// reportOvertime ends this process when its processor time is used up.
func reportOvertime() {
	used := make(chan os.Signal, 1)
	signal.Notify(used, unix.SIGXCPU)
	<-used
	_ = json.NewEncoder(os.Stderr).Encode(check.Report{Problem: agentbox.CheckTime})
	os.Exit(0)
}

// maxSpec bounds each of the two lines.
const maxSpec = 1 << 20

func run(ctx context.Context) (check.Report, error) {
	in := bufio.NewReader(os.Stdin)
	var prepare check.Prepare
	if err := readLine(in, &prepare); err != nil {
		return check.Report{}, err
	}
	wasm, err := io.ReadAll(os.NewFile(3, "module"))
	if err != nil {
		return check.Report{}, err
	}
	ready, report, err := module.Compile(ctx, prepare, wasm)
	if ready == nil {
		return report, err
	}
	var spec check.Spec
	if err := readLine(in, &spec); err != nil {
		return check.Report{}, err
	}
	tree, err := module.ParseTree(in)
	if err != nil {
		return check.Report{}, err
	}
	blobs := module.Blobs{Ask: os.NewFile(5, "questions"), In: bufio.NewReader(os.NewFile(4, "objects"))}
	return ready.Run(ctx, spec, tree, blobs, os.Stdout)
}

func readLine(in *bufio.Reader, into any) error {
	line, err := bounded.ReadLine(in, maxSpec)
	if err != nil {
		return err
	}
	return json.Unmarshal(line, into)
}
