package setup

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
	"agentbox/agentbox/config"
	"agentbox/agentbox/environment"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image"
)

// populate runs setup in a clean box, over the caches of the nearest key, and publishes the result.
// Services do not run there, because what they write is state and not a cache. Conflict means that
// setup itself failed.
//
// The box is never ready, so nobody else finds it, and it is always removed: here or, after a
// crash, by the next daemon.
func (s *Setup) populate(ctx context.Context, req Request, base image.Image, in caches.Ingredients, progress agentbox.Progress) (caches.Result, error) {
	made := caches.Result{Key: in.Key(), Ingredients: in, Private: len(base.Include) > 0}
	progress.Note("setup runs in a clean box, once for key " + made.Key.Short())
	img, err := s.nearestImage(ctx, base, in, progress)
	if err != nil {
		return made, err
	}
	b, err := req.Clean(ctx, img, progress)
	if err != nil {
		return made, err
	}
	made, err = s.export(ctx, b.Box, req.Config, made, progress)
	return made, errors.Join(err, b.Remove())
}

// machineOnly are places whose changes are the machine's and not setup's.
var machineOnly = slices.Concat([]string{
	"/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/tmp", "/var/tmp", "/run", "/dev", "/proc", "/sys", protocol.WorkspaceDir, protocol.ContainersDir,
}, image.PerBoxFiles())

// export runs setup in the box and publishes the result: an inventory of the files, then the
// commands, then everything that has changed. The archives are temporary files in the box's
// directory.
func (s *Setup) export(ctx context.Context, b Box, cfg *config.Config, made caches.Result, progress agentbox.Progress) (caches.Result, error) {
	paths, err := s.cachePaths(ctx, b, cfg.Caches)
	if err != nil {
		return made, err
	}
	dir, err := os.MkdirTemp(b.Dir, ".tmp-export-")
	if err != nil {
		return made, agentbox.MarkNoSpace(err)
	}
	defer os.RemoveAll(dir)
	all := resultParts(paths)
	known, err := s.inventories(ctx, b, all, dir)
	defer known.close()
	if err != nil {
		return made, agentbox.MarkNoSpace(err)
	}
	if err := Run(ctx, b, "setup", cfg.Setup, "", progress); err != nil {
		return made, err
	}
	end := progress.Begin("publish", made.Key.Short())
	files := map[caches.Part]string{}
	for part, what := range all {
		what.Known = known[part]
		files[part] = filepath.Join(dir, string(part)+".tar")
		made.Parts = append(made.Parts, part)
		if err := s.receive(ctx, b, what, files[part]); err != nil {
			return made, agentbox.MarkNoSpace(err)
		}
	}
	slices.Sort(made.Parts)
	made, err = s.publish(ctx, made, files, progress)
	if err == nil {
		end("")
	}
	return made, err
}

// publish stores the result of a populate run and returns the result that its key stands for from
// now on. That is another one if a trusted one was there first. The user is told, since the same
// ingredients should give the same result.
func (s *Setup) publish(ctx context.Context, made caches.Result, files map[caches.Part]string, progress agentbox.Progress) (caches.Result, error) {
	err := s.Results.Publish(ctx, made, files)
	if err == nil {
		return s.find(ctx, made.Key, progress)
	}
	if agentbox.CodeOf(err) != agentbox.Conflict {
		return made, agentbox.MarkNoSpace(err)
	}
	progress.Note("setup made something else this time, which is not used: " + err.Error() + " (agentbox cache show --why " + made.Key.Short() + ")")
	return s.find(ctx, made.Key, progress)
}

// cachePaths makes the configured cache directories absolute; the box is asked for its user's home.
// Directories in the workspace are left out, because they are part of the workspace's changes.
func (s *Setup) cachePaths(ctx context.Context, b Box, configured []string) ([]string, error) {
	client, err := environment.Open(ctx, b.Address, b.User)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	home, err := environment.Home(ctx, b.User, func(ctx context.Context, cmd environment.Command) (environment.Status, error) {
		return environment.Exec(ctx, client, cmd)
	})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range configured {
		if rest, ok := strings.CutPrefix(p, "~"); ok {
			p = home + rest
		}
		if p = path.Clean(p); p != protocol.WorkspaceDir && !strings.HasPrefix(p, protocol.WorkspaceDir+"/") {
			out = append(out, p)
		}
	}
	return out, nil
}
