// Package guesttest drives the real guest agent for the conformance suite of the drivers
// (vmmtest). It is for tests only.
//
// A Guest begins a life as a supervisor does, and keeps files over SFTP where the suite expects
// them. The tests of vmm/qemu and vmm/gvisor add PowerOff and make it a vmmtest.Guest.
package guesttest

import (
	"context"
	"errors"
	"io"
	"path"

	"github.com/pkg/sftp"

	"agentbox/tools/suites/vmmtest"
	"agentbox/vmm"
	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
)

// Guest is a vmmtest.Guest but for PowerOff, which depends on the programs in the image.
type Guest struct {
	*guest.Client
	Files *sftp.Client // as the user of commands
}

// Greet begins a new life of the guest.
func Greet(ctx context.Context, m vmm.Machine) (*Guest, error) {
	c, err := guest.Greet(ctx, m, guest.NewHello("conformance"))
	if err != nil {
		return nil, err
	}
	files, err := sftp.NewClient(c.SSH())
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &Guest{c, files}, nil
}

// file is the path of a file in the guest: /dev/shm is memory, /tmp the runtime layer.
func file(p vmmtest.Storage, name string) string {
	return path.Join([]string{"/dev/shm", "/tmp", protocol.WorkspaceDir}[p], name)
}

// Put writes a file. When the guest's kernel writes it to disk is up to that.
func (g *Guest) Put(_ context.Context, p vmmtest.Storage, name string, data []byte) error {
	f, err := g.Files.Create(file(p, name))
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// Get returns the content of a file.
func (g *Guest) Get(_ context.Context, p vmmtest.Storage, name string) ([]byte, error) {
	f, err := g.Files.Open(file(p, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Attach mounts the workspace.
func (g *Guest) Attach(ctx context.Context) error {
	return g.Client.Attach(ctx, protocol.AttachRequest{Workspace: true})
}

// Close cuts the connection first: a quiesced guest answers nothing any more.
func (g *Guest) Close() error {
	err := g.Client.Close()
	g.Files.Close() // always fails then
	return err
}
