package host

import (
	"bytes"
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
	"agentbox/agentbox/workspace"
	"agentbox/vmm/image"
)

// populate runs setup in a clean box of its own, over the caches of the nearest key, and publishes what it made. Services
// do not run there: what they write is state, not a cache. An error of code Conflict means that setup itself failed.
//
// The box is never ready, so nobody else finds it and a daemon that dies takes it along.
func (m *Manager) populate(ctx context.Context, like record, cfg *config.Config, base image.Image, in caches.Ingredients, progress agentbox.Progress) (caches.Made, error) {
	made := caches.Made{Key: in.Key(), Ingredients: in, Private: len(base.Include) > 0}
	progress.Say("setup runs in a clean box, once for key " + made.Key.Short())
	repo, err := workspace.Describe(ctx, like.Box.Directory)
	if err != nil {
		return made, err
	}
	rec := like
	rec.Phase, rec.Key, rec.Remote, rec.Life, rec.Workspace = phaseNew, "", "", 1, 1
	rec.Attach.Services, rec.Attach.Ports = nil, nil
	img, err := m.nearestImage(ctx, base, in, progress)
	if err != nil {
		return made, err
	}
	rec.startFrom(img)
	b, err := m.populateBox(ctx, rec, repo, progress)
	if err != nil {
		return made, err
	}
	made, err = m.harvest(ctx, b.record(), cfg, made, progress)
	return made, errors.Join(err, m.remove(b))
}

// populateBox makes the clean box.
func (m *Manager) populateBox(ctx context.Context, rec record, repo workspace.Repo, progress agentbox.Progress) (*box, error) {
	out := base{rec: rec}
	if !rec.Cold {
		template, err := m.templates.open(ctx, rec, progress)
		if err != nil {
			return nil, err
		}
		out.template, out.rec.Box.Template = template, template.key
	}
	named := repo
	named.Branch = "setup" // the box's name is made of it
	b, err := m.leaseOrNew(out, plan{repo: named})
	if err != nil {
		return nil, err
	}
	b.op.Lock()
	err = m.assemble(ctx, b, repo, out, progress)
	b.op.Unlock()
	if err != nil {
		return nil, errors.Join(agentbox.OrNoSpace(err), m.remove(b))
	}
	return b, nil
}

// notSetup are places whose changes are the machine's own and not setup's.
var notSetup = slices.Concat([]string{
	"/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/tmp", "/var/tmp", "/run", "/dev", "/proc", "/sys", guestWorkspace,
}, image.OwnFiles())

// harvest runs setup in the box and publishes what it made.
func (m *Manager) harvest(ctx context.Context, rec record, cfg *config.Config, made caches.Made, progress agentbox.Progress) (caches.Made, error) {
	paths, err := m.cachePaths(ctx, rec, cfg.Caches)
	if err != nil {
		return made, err
	}
	dir, err := os.MkdirTemp(rec.names(m.home).Dir, ".tmp-harvest-")
	if err != nil {
		return made, agentbox.OrNoSpace(err)
	}
	defer os.RemoveAll(dir)
	all := harvests(paths)
	known, err := m.inventories(ctx, rec, all, dir)
	defer known.close()
	if err != nil {
		return made, agentbox.OrNoSpace(err)
	}
	if err := m.runAll(ctx, rec, "setup", cfg.Setup, progress); err != nil {
		return made, err
	}
	end := progress.Begin("publish", made.Key.Short())
	files := map[caches.Part]string{}
	for part, what := range all {
		what.Known = known[part]
		files[part] = filepath.Join(dir, string(part)+".tar")
		made.Parts = append(made.Parts, part)
		if err := m.take(ctx, rec, what, files[part]); err != nil {
			return made, agentbox.OrNoSpace(err)
		}
	}
	slices.Sort(made.Parts)
	made, err = m.publish(ctx, made, files, progress)
	if err == nil {
		end("")
	}
	return made, err
}

// publish keeps what a populate run made, and gives what its key stands for from now on: where another result is here that is to be believed,
// that one. The same ingredients should have given the same, so people are told.
func (m *Manager) publish(ctx context.Context, made caches.Made, files map[caches.Part]string, progress agentbox.Progress) (caches.Made, error) {
	err := m.shelf.Publish(ctx, made, files)
	if err == nil {
		return m.shelf.Find(ctx, made.Key)
	}
	if agentbox.CodeOf(err) != agentbox.Conflict {
		return made, agentbox.OrNoSpace(err)
	}
	progress.Say("setup made something else this time, which is not used: " + err.Error() + " (agentbox cache show --why " + made.Key.Short() + ")")
	return m.shelf.Find(ctx, made.Key)
}

// cachePaths makes the configured directories absolute: only the box knows where its user's home is. Those in the workspace
// are part of what setup made there.
func (m *Manager) cachePaths(ctx context.Context, rec record, configured []string) ([]string, error) {
	var home bytes.Buffer
	client, err := environment.Open(ctx, m.address(rec), rec.User)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	status, err := environment.Exec(ctx, client, environment.Command{Argv: []string{"sh", "-c", `printf %s "$HOME"`}, Stdout: &home})
	if err != nil {
		return nil, err
	}
	if status.Code != 0 || !path.IsAbs(home.String()) {
		return nil, agentbox.Errorf(agentbox.Conflict, "user %s of the box has no home directory", rec.User)
	}
	var out []string
	for _, p := range configured {
		if rest, ok := strings.CutPrefix(p, "~"); ok {
			p = home.String() + rest
		}
		if p = path.Clean(p); p != guestWorkspace && !strings.HasPrefix(p, guestWorkspace+"/") {
			out = append(out, p)
		}
	}
	return out, nil
}
