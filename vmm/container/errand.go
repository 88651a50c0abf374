package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"agentbox/vmm"
	"agentbox/vmm/child"
	"agentbox/vmm/container/plan"
	"agentbox/vmm/hostdir/give"
	"agentbox/vmm/userns"
)

// Reclaim implements vmm.Reclaimer. What root of the box made belongs to an id of the machine's
// namespace, so that a user could not even remove its directories. If dir is missing, the error wraps
// fs.ErrNotExist.
func (d *Driver) Reclaim(ctx context.Context, dir string) error {
	foreign, err := userns.HasForeign(dir)
	if err != nil || !foreign {
		return err
	}
	if os.Geteuid() == 0 {
		return give.Tree(dir, 0)
	}
	return d.errand(ctx, plan.Plan{Adopt: dir, User: vmm.GuestUID}, nil)
}

// remove removes a directory that machines wrote, or an image that was unpacked.
func (d *Driver) remove(ctx context.Context, dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(dir); err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return d.errand(ctx, plan.Plan{Remove: dir}, nil)
}

// dropRuntime removes the runtime layer of a machine that has ended, if its caller could not: files in
// it belong to ids of the box.
func (d *Driver) dropRuntime(spec vmm.Spec) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return d.remove(context.Background(), filepath.Join(spec.Dir, machineDir))
}

// errand has a launcher do something as root of a namespace with a machine's ids. tar is for
// Plan.Unpack. If ctx ends, it may be half done.
func (d *Driver) errand(ctx context.Context, p plan.Plan, tar *os.File) error {
	agent, err := d.agentDirectory()
	if err != nil {
		return err
	}
	ids, err := userns.ApartIDs()
	if err != nil {
		return err
	}
	control, theirs, err := child.SocketPair("control")
	if err != nil {
		return err
	}
	defer control.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return errors.Join(err, theirs.Close())
	}
	defer null.Close()
	cmd := launcher(agentFile(agent))
	cmd.ExtraFiles = []*os.File{theirs, null, null}
	if tar != nil {
		cmd.ExtraFiles[2] = tar
	}
	proc, err := child.Start(cmd, nil)
	theirs.Close()
	if err != nil {
		return userns.Explain(err)
	}
	defer proc.Kill()
	stop := context.AfterFunc(ctx, func() { proc.Terminate() })
	defer stop()
	if err := ids.Apply(ctx, proc.PID); err != nil {
		return err
	}
	if err := json.NewEncoder(control).Encode(p); err != nil {
		return err
	}
	e, _, err := receive(control)
	if err == nil && !e.Started {
		err = errors.New(e.Failed)
	}
	if err != nil {
		return fmt.Errorf("as root of the box: %w", errors.Join(err, ctx.Err()))
	}
	return nil
}
