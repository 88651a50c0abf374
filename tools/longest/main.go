// Longest runs tests and says which took longest, and how much of that something waited for a core:
//
//	longest FILE go test ARGUMENTS...   runs the tests and adds what they took to FILE
//	longest FILE                        prints the ten longest of FILE
//
// The kernel counts for the whole machine how long at least one process could have run and had no
// core (/proc/pressure/cpu), so a test that waits hardly at all and is long is worth a look.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

const most = 10

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("usage: longest FILE [go test ARGUMENTS...]"))
	}
	file, argv := os.Args[1], os.Args[2:]
	if len(argv) == 0 {
		fail(show(os.Stdout, file))
		return
	}
	argv = append([]string{argv[0], argv[1], "-json"}, argv[2:]...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	fail(errors.Join(err, cmd.Start()))
	r := newReader(os.Stdout, delayed)
	err = r.read(events)
	ended := cmd.Wait()
	fail(errors.Join(err, keep(file, r.tests)))
	if ended != nil {
		os.Exit(1) // go test has said why
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "longest:", err)
		os.Exit(1)
	}
}

func keep(file string, tests []test) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	for _, t := range tests {
		err = errors.Join(err, json.NewEncoder(f).Encode(t))
	}
	return errors.Join(err, f.Close())
}

func show(to io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var all []test
	for d := json.NewDecoder(f); ; {
		var t test
		if err := d.Decode(&t); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, t)
	}
	fmt.Fprintf(to, "The %d longest, and for how long of that something on this machine waited for a core:\n", min(most, len(all)))
	for _, t := range longest(all, most) {
		fmt.Fprintf(to, "%7.1f s %7.1f s  %s %s\n", t.Took, t.Delayed, t.Package, t.Name)
	}
	return nil
}
