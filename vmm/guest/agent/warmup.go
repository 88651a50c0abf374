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

// warmUps are what clones run first. The first is also what a box is warmed up with while it is
// greeted. An image need not have the programs.
var warmUps = [][]string{{"true"}, {"sh", "-c", "true"}, {"bash", "-lc", "ls -l"}, {"git", "--version"}}

// warmUp also takes the name and id of the life that ends from the machine. No name is shorter than
// its new one, so that a clone's takes no block away from a file. Afterwards the machine has names
// that no box has.
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
		a.perform(argv)
	}
	return nil
}

// warmUpAttach has in memory what an attach looks at, and what the decoder of its request finds out
// about it the first time. Errors of files that an image does not have are dropped.
func warmUpAttach(workspace string) error {
	os.Stat(workspace)
	for _, path := range givenFiles {
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

// longestWarmUp is for an image whose programs are not what they are called.
const longestWarmUp = 5 * time.Second

// perform runs a command in a session that nobody listens to, from the request to its end. An image
// need not have the program. It is a command like any other, through the same code, so that this
// code has run before a clone needs it.
func (a *Agent) perform(argv []string) {
	payload, err := json.Marshal(protocol.ArgvRequest{Argv: argv, Env: map[string]string{"A": "a"}, Dir: "/"})
	if err != nil {
		return
	}
	s := &session{conn: &connection{agent: a, life: newLife(nil)}, ch: nobody{}, env: map[string]string{}}
	s.command(&ssh.Request{Type: protocol.Argv, Payload: payload})
	if <-s.launched; s.process == nil {
		return
	}
	end := time.AfterFunc(longestWarmUp, func() { a.spawner.signal(s.process, syscall.SIGKILL) })
	defer end.Stop()
	<-s.process.done
}

// nobody is the client of a warm-up. It implements ssh.Channel, reads nothing and takes everything.
type nobody struct{}

func (nobody) Read([]byte) (int, error)                       { return 0, io.EOF }
func (nobody) Write(p []byte) (int, error)                    { return len(p), nil }
func (nobody) Close() error                                   { return nil }
func (nobody) CloseWrite() error                              { return nil }
func (nobody) SendRequest(string, bool, []byte) (bool, error) { return true, nil }
func (n nobody) Stderr() io.ReadWriter                        { return n }
