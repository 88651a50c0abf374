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
	"agentbox/vmm/memfile"
	"agentbox/vmm/statedir"
)

// Restore implements vmm.Snapshotter. A saved state is verified while the sandbox already loads it;
// one that is not what was written costs a sandbox. The template's images were verified when it was
// opened. On failure nothing runs, and a workspace that was copied or moved is removed: a passing
// state is lost then, as vmm.Passing says.
func (d *Driver) Restore(ctx context.Context, spec vmm.Spec, from vmm.Template, saved string) (vmm.Machine, error) {
	t, err := statedir.Own[*template](from)
	if err != nil {
		return nil, err
	}
	man, err := statedir.Origin(saved, t.ID, t.Manifest)
	if err != nil {
		return nil, err
	}
	r := &restoration{spec: spec, template: t, dir: saved, man: man}
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

type restoration struct {
	spec     vmm.Spec
	template *template
	dir      string   // of the saved state; "" restores the template
	man      manifest // of the saved state or else the template
	copied   bool     // the workspace was, or moved, and goes again when it fails
}

// run checks what is cheap before it copies anything or starts a process.
func (r *restoration) run(ctx context.Context, d *Driver) (*machine, error) {
	fingerprint, err := d.Fingerprint(ctx, r.spec)
	if err != nil {
		return nil, err
	}
	if err := r.man.Fits(r.spec, fingerprint, "gVisor, agentbox, the CPU, the user's ids", r.man.Disks, r.man.Workspace != nil); err != nil {
		return nil, err
	}
	images, err := r.images()
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
	m.base = &template{ID: r.template.ID, Manifest: r.template.Manifest}
	if err := r.show(&p); err != nil {
		return nil, err
	}
	return m, r.start(ctx, d, m, p, images)
}

// start loads the state and verifies it at the same time. A state that does not match its digests
// ends the start under way, and its error counts, not that of the sandbox.
func (r *restoration) start(ctx context.Context, d *Driver, m *machine, p plan.Plan, images []*os.File) error {
	p.Argv = restoreArgv()
	group, verifying := errgroup.WithContext(ctx)
	if r.dir != "" {
		group.Go(func() error { return r.man.verify(verifying, r.dir, images) })
	}
	started := d.start(verifying, m, p, images) // ends at once when the state is not what was saved: gVisor may hang on it
	if err := group.Wait(); err != nil {
		if started == nil {
			err = errors.Join(err, m.Kill())
		}
		return err // what it would not start from is the reason why it did not
	}
	return started
}

// images are the files to load, to be closed by the caller. Each has an offset of its own.
func (r *restoration) images() ([]*os.File, error) {
	if r.dir != "" {
		return r.man.openImages(r.dir)
	}
	var files []*os.File
	for _, f := range r.template.images {
		again, err := memfile.Reopen(f)
		if err != nil {
			statedir.Close(files...)
			return nil, err
		}
		files = append(files, again)
	}
	return files, nil
}

// workspace copies the saved one to where the machine has it, or moves it there when nobody wants
// it afterwards. spec.Workspace must not exist (code Exists). The listing is compared before the
// copy, so a damaged one costs nothing.
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
	if r.man.Passing {
		return errors.Join(unix.Rename(src, r.spec.Workspace), os.Chmod(r.spec.Workspace, 0o755)) // os.Rename refuses an empty directory
	}
	return copyTree(ctx, r.spec.Workspace, src, 0)
}

// verifyWorkspace compares what is listed with what was: names, modes, sizes and times.
func (r *restoration) verifyWorkspace(dir string) error {
	if r.man.Passing {
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

// show makes the directory in which runsc looks for the images: links to the descriptors that it
// inherits. runsc wants a path, and the machine's root shows nothing of the host's; a link to
// /proc/self/fd is resolved by the process that opens it.
func (r *restoration) show(p *plan.Plan) error {
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
