package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/gvisor/plan"
	"agentbox/vmm/hostdir"
	"agentbox/vmm/statedir"
)

// Restore implements vmm.Snapshotter. It verifies a saved state while the sandbox loads it. After
// an error nothing runs, and the workspace is removed: a transient state is lost then, see
// vmm.Transient.
func (d *Driver) Restore(ctx context.Context, spec vmm.Spec, t vmm.Template, saved string) (vmm.Machine, error) {
	if t != nil || saved == "" {
		return nil, errors.New("gVisor restores saved states only, and without a template")
	}
	man, _, err := statedir.ReadManifest[manifest](saved)
	if err != nil {
		return nil, err
	}
	r := &restoration{spec: spec, dir: saved, man: man}
	m, err := r.run(ctx, d)
	if err != nil {
		err = statedir.HostError(errors.Join(err, r.undo()))
		if m != nil && m.released {
			err = &vmm.MayHaveRun{Cause: err}
		}
		return nil, err
	}
	return m, nil
}

// VerifySaved implements vmm.Mover.
func (d *Driver) VerifySaved(ctx context.Context, spec vmm.Spec, saved string) error {
	man, _, err := statedir.ReadManifest[manifest](saved)
	if err != nil {
		return err
	}
	fingerprint, err := d.Fingerprint(ctx, spec)
	if err != nil {
		return err
	}
	if err := man.Fits(spec, fingerprint, restsOn, man.Disks, man.Workspace != nil); err != nil {
		return err
	}
	if man.Disks || man.Transient {
		return statedir.Corrupt(saved, "it was not saved to be moved")
	}
	images, err := man.openImages(saved)
	if err != nil {
		return err
	}
	defer statedir.Close(images...)
	return man.verify(ctx, saved, images)
}

// restsOn names what a fingerprint covers.
const restsOn = "gVisor, agentbox, the CPU, the user's ids"

type restoration struct {
	spec   vmm.Spec
	dir    string // of the saved state
	man    manifest
	copied bool // the workspace was copied or moved, and is removed after an error
}

// run makes the cheap checks before it copies anything or starts a process.
func (r *restoration) run(ctx context.Context, d *Driver) (*machine, error) {
	fingerprint, err := d.Fingerprint(ctx, r.spec)
	if err != nil {
		return nil, err
	}
	if err := r.man.Fits(r.spec, fingerprint, restsOn, r.man.Disks, r.man.Workspace != nil); err != nil {
		return nil, err
	}
	images, err := r.man.openImages(r.dir)
	if err != nil {
		return nil, err
	}
	defer statedir.Close(images...)
	if err := r.workspace(ctx); err != nil {
		return nil, err
	}
	m, p, err := d.prepare(ctx, r.spec)
	if err != nil {
		return nil, err
	}
	if err := r.linkImages(&p); err != nil {
		return nil, err
	}
	return m, r.start(ctx, d, m, p, images)
}

// start loads and verifies the state at the same time. If the state is damaged, it ends the sandbox
// and returns that error, since gVisor may hang on such a state.
func (r *restoration) start(ctx context.Context, d *Driver, m *machine, p plan.Plan, images []*os.File) error {
	p.Argv = restoreArgv()
	group, verifying := errgroup.WithContext(ctx)
	group.Go(func() error { return r.man.verify(verifying, r.dir, images) })
	started := d.start(verifying, m, p, images)
	if err := group.Wait(); err != nil {
		if started == nil {
			err = errors.Join(err, m.Kill())
		}
		return err // which explains an error of the start, too
	}
	return started
}

// workspace copies the saved workspace to spec.Workspace, which must not exist (code Exists). A
// passing one is moved. It compares the listing first.
func (r *restoration) workspace(ctx context.Context) error {
	if r.man.Workspace == nil {
		return nil
	}
	src := filepath.Join(r.dir, workspaceDir)
	if err := r.verifyWorkspace(src); err != nil {
		return err
	}
	if err := os.Mkdir(r.spec.Workspace, 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return agentbox.Errorf(agentbox.Exists, "%s exists already", r.spec.Workspace)
		}
		return err
	}
	r.copied = true
	if r.man.Transient {
		return errors.Join(unix.Rename(src, r.spec.Workspace), os.Chmod(r.spec.Workspace, 0o755)) // os.Rename refuses an empty directory
	}
	return hostdir.CopyTree(ctx, r.spec.Workspace, src, 0)
}

// verifyWorkspace compares names, modes, sizes and times with those that were saved.
func (r *restoration) verifyWorkspace(dir string) error {
	if r.man.Transient {
		return nil
	}
	listing, err := digestTree(dir)
	if err != nil {
		return statedir.Corrupt(r.dir, "%s: %w", workspaceDir, err)
	}
	if *listing != *r.man.Workspace {
		return statedir.Corrupt(r.dir, "%s is not what was saved", workspaceDir)
	}
	return nil
}

// linkImages makes the directory in which runsc looks for the images. runsc needs paths, but the
// machine's root has no files of the host. So these are links to descriptors in /proc/self/fd,
// which runsc inherits.
func (r *restoration) linkImages(p *plan.Plan) error {
	dir := filepath.Join(r.spec.Dir, machineDir, savedDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for i, name := range imageNames {
		if err := os.Symlink(fmt.Sprintf("/proc/self/fd/%d", plan.FDFirst+i), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	p.Binds = append(slices.Clip(p.Binds), plan.Bind{Source: dir, Target: inSaved, Dir: true})
	return nil
}

func (r *restoration) undo() error {
	if !r.copied {
		return nil
	}
	return os.RemoveAll(r.spec.Workspace)
}
