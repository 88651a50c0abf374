package environment

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/vmm/guest/protocol"
)

// maxWatchLine is more than an event with the longest name takes, in bytes.
const maxWatchLine = 64 << 10

// Watch tells what changes in a directory of the environment until ctx ends or tell fails: names relative
// to it, and kinds as in protocol.WatchEvent. began is called first: what changes from then on is told. What
// WriteWhole has not completed is not. An environment that cannot watch is an error.
func Watch(ctx context.Context, client *ssh.Client, dir string, recursive bool, began func() error, tell func(name, kind string) error) error {
	request, err := json.Marshal(protocol.WatchRequest{Dir: dir, Recursive: recursive, Hidden: partPrefix})
	if err != nil {
		return err
	}
	in, toBox := io.Pipe()
	fromBox, out := io.Pipe()
	defer toBox.Close()
	go func() { _, _ = toBox.Write(append(request, '\n')) }() // a watcher that has ended reads nothing
	told := make(chan error, 1)
	go func() {
		err := readEvents(bufio.NewReaderSize(fromBox, maxWatchLine), began, tell)
		fromBox.CloseWithError(err)
		told <- err
	}()
	var complaint strings.Builder
	status, err := Exec(ctx, client, Command{Subsystem: protocol.WatchSubsystem, Stdin: in, Stdout: out, Stderr: &bounded.Head{W: &complaint, Remaining: maxComplaint}})
	out.Close()
	if failed := <-told; failed != nil {
		return failed
	}
	if err == nil && status.Code != 0 {
		err = agentbox.Errorf(agentbox.Unavailable, "%s in the box is not watched: %s", dir, agentbox.Printable(strings.TrimSpace(complaint.String())))
	}
	return err
}

func readEvents(in *bufio.Reader, began func() error, tell func(name, kind string) error) error {
	for {
		line, err := bounded.ReadLine(in, maxWatchLine)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var e protocol.WatchEvent
		if json.Unmarshal(line, &e) != nil || e.Kind != "" && !filepath.IsLocal(e.Name) {
			return agentbox.Errorf(agentbox.Unavailable, "the box tells of its files in another way than agreed")
		}
		if e.Kind == "" {
			err = began()
		} else {
			err = tell(e.Name, e.Kind)
		}
		if err != nil {
			return err
		}
	}
}
