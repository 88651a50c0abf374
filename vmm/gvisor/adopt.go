package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"agentbox/vmm"
	"agentbox/vmm/child"
	"agentbox/vmm/gvisor/plan"
	"agentbox/vmm/userns"
)

// adopt gives everything in a workspace to this process's user. What root of the box made belongs
// to an id of the machine's namespace, so that the user could not even remove its directories. Only
// a process in a namespace with the same ids can change the owner, so adopt starts a launcher,
// unless the user owns everything already. No machine may use dir. If ctx ends, a part of dir stays
// as it was. launcher is the program's path.
func adopt(ctx context.Context, launcher, dir string) error {
	foreign, err := userns.HasForeign(dir)
	if err != nil || !foreign {
		return err
	}
	ids, err := userns.HostIDs()
	if err != nil {
		return err
	}
	toLauncher, control, err := child.SocketPair("control")
	if err != nil {
		return err
	}
	defer toLauncher.Close()
	p, err := userns.Start(launcher, nil, []*os.File{control})
	control.Close()
	if err != nil {
		return userns.Explain(err)
	}
	defer p.Kill()
	stop := context.AfterFunc(ctx, func() { p.Terminate() })
	defer stop()
	if err := ids.Apply(ctx, p.PID); err != nil {
		return err
	}
	var e plan.Event
	err = errors.Join(json.NewEncoder(toLauncher).Encode(plan.Plan{Adopt: dir, User: vmm.GuestUID}), json.NewDecoder(toLauncher).Decode(&e))
	if err == nil && !e.Started {
		err = errors.New(e.Failed)
	}
	if err != nil {
		return fmt.Errorf("give %s to its user: %w", dir, err)
	}
	return nil
}

// Reclaim implements vmm.Reclaimer. If dir is missing, the error wraps fs.ErrNotExist.
func (d *Driver) Reclaim(ctx context.Context, dir string) error {
	programs, err := d.programs.Ensure()
	if err != nil {
		return err
	}
	return adopt(ctx, programs.Launch, dir)
}
