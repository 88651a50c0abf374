//go:build linux

package agent

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest/protocol"
)

// warmUps are the commands that clones run first. An image need not have the programs.
var warmUps = [][]string{{"true"}, {"sh", "-c", "true"}, {"bash", "-lc", "ls -l"}, {"git", "--version"}}

// warmUp also replaces the machine's name and id by ones that no box has. They are not longer than
// those of any clone, so that writing a clone's name frees no block.
func (a *Agent) warmUp() error {
	if err := a.Machine.SetHostname("t"); err != nil {
		return err
	}
	if err := a.Machine.SetMachineID(strings.Repeat("0", 32)); err != nil {
		return err
	}
	if _, err := a.Machine.Trust(protocol.Authority{PEM: placeholder, File: protocol.AuthorityFile}); err != nil {
		return err
	}
	if err := warmUpAttach(a.Machine.Workspace); err != nil {
		return err
	}
	for _, argv := range warmUps {
		a.runDiscarded(argv)
	}
	return nil
}

// warmUpAttach brings into memory what an attach looks at, and its request's decoder.
func warmUpAttach(workspace string) error {
	os.Stat(workspace)
	for _, path := range hostFiles {
		os.ReadFile(path) // an image need not have its directory
	}
	request, err := json.Marshal(protocol.AttachRequest{
		Hostname: "t", User: "t", Env: map[string]string{"A": "a"}, Services: []protocol.Service{{Name: "t"}},
		Authority: &protocol.Authority{PEM: "t"}, Files: []protocol.File{{Path: "/t"}},
	})
	if err != nil {
		return err
	}
	return json.Unmarshal(request, &protocol.AttachRequest{})
}

// warmUpTimeout is for an image whose programs do something else than their names say.
const warmUpTimeout = 5 * time.Second

// runDiscarded runs a command in a session without a client, through the same code as any other
// command, so that this code has run before a clone needs it. An image need not have the program.
func (a *Agent) runDiscarded(argv []string) {
	payload, err := json.Marshal(protocol.ArgvRequest{Argv: argv, Env: map[string]string{"A": "a"}, Dir: "/"})
	if err != nil {
		return
	}
	s := &session{conn: &connection{agent: a, life: newLife(nil)}, ch: discardChannel{}, env: map[string]string{}}
	s.command(&ssh.Request{Type: protocol.Argv, Payload: payload})
	if <-s.launched; s.process == nil {
		return
	}
	end := time.AfterFunc(warmUpTimeout, func() { a.spawner.signal(s.process, syscall.SIGKILL) })
	defer end.Stop()
	<-s.process.done
}

// discardChannel is the ssh.Channel of a warm-up. It has no input and drops all output.
type discardChannel struct{}

func (discardChannel) Read([]byte) (int, error)                       { return 0, io.EOF }
func (discardChannel) Write(p []byte) (int, error)                    { return len(p), nil }
func (discardChannel) Close() error                                   { return nil }
func (discardChannel) CloseWrite() error                              { return nil }
func (discardChannel) SendRequest(string, bool, []byte) (bool, error) { return true, nil }
func (d discardChannel) Stderr() io.ReadWriter                        { return d }
