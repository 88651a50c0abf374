package setup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox/caches"
	"agentbox/agentbox/environment"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image"
)

// resultLimits bounds each part of a setup result, so that a box cannot fill this host's disk or
// keep the daemon busy.
var resultLimits = environment.Limits{
	Bytes: 32 << 30, Files: 2_000_000, Time: time.Hour,
	Of: "what setup made", Hint: "let setup remove what boxes do not need, or name less in `caches:`",
}

// resultParts are the parts of a setup result: the caches as a whole, and changes of everything
// else. Git's directory is not part of it, since each box has its own.
func resultParts(dirs []string) map[caches.Part]environment.Export {
	all := map[caches.Part]environment.Export{
		caches.Runtime:   {Root: "/", Skip: slices.Concat(dirs, machineOnly), Whole: image.PerBoxDirectories(), Limits: resultLimits},
		caches.Workspace: {Root: protocol.WorkspaceDir, Skip: []string{protocol.WorkspaceDir + "/.git"}, Limits: resultLimits},
	}
	if len(dirs) > 0 {
		all[caches.Dirs] = environment.Export{Root: "/", Paths: dirs, Limits: resultLimits}
	}
	return all
}

// inventories list what was in a box before setup, for parts of which only changes are kept.
type inventories map[caches.Part]*os.File

// close closes the files, which are removed with their directory.
func (i inventories) close() {
	for _, f := range i {
		f.Close() // it was read only
	}
}

// inventories takes a box's inventories, on the host, where the box cannot hide a change.
func (s *Setup) inventories(ctx context.Context, b Box, all map[caches.Part]environment.Export, dir string) (inventories, error) {
	known := inventories{}
	for part, what := range all {
		if len(what.Paths) > 0 {
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, string(part)+".before"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return known, err
		}
		known[part] = f
		if err := s.connected(ctx, b, f, what.Inventory); err != nil {
			return known, err
		}
	}
	return known, nil
}

// receive writes files of a box to a new tar archive on the host.
func (s *Setup) receive(ctx context.Context, b Box, what environment.Export, to string) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(s.connected(ctx, b, f, what.Receive), f.Close())
}

// connected calls do with a connection into a box. Each step has its own, because a command may run
// for an hour between two of them.
func (s *Setup) connected(ctx context.Context, b Box, w io.Writer, do func(context.Context, *ssh.Client, io.Writer) error) error {
	client, err := environment.Open(ctx, b.Address, b.User)
	if err != nil {
		return err
	}
	defer client.Close()
	return do(ctx, client, w)
}
