package templates

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/vmm/kernel"
)

// Team is what templates need of the other machines (agentbox/team).
type Team interface {
	// Template fills dir, which is empty, with a template that another machine made for a key, and
	// says who: for Distrusts, and for people. NotFound: nobody offers it. progress may be nil.
	Template(ctx context.Context, key, dir string, progress func(done, total int)) (by, name string, err error)
	// TemplateMade says that there is one that was not here a moment ago. It does not wait.
	TemplateMade()
	// ForgetTemplate takes back what others may have of one that is not here any more.
	ForgetTemplate(ctx context.Context, key string) error
	// Distrusts tells whether what somebody made is not to be used any more. "" is this machine.
	Distrusts(by string) bool
}

// Origin says where a template came from.
type Origin struct {
	Image agentbox.Digest `json:"image"`        // what its machine booted
	By    string          `json:"by,omitempty"` // the member that made it; "": this machine
}

// originFile is beside the files of the template. One without it was made here, of no image that
// anybody knows.
const originFile = kernel.FileOrigin // the same for all that travels

// origin reads where the template of a key came from; the zero Origin where there is no file.
func (t *Templates) origin(key string) (Origin, error) {
	var o Origin
	if err := durable.ReadJSON(filepath.Join(t.Home.Template(key), originFile), &o); err != nil {
		return o, agentbox.Errorf(agentbox.Corrupt, "nobody can tell where a template came from: %w", err)
	}
	return o, nil
}

// Origins tells of each template that is here where it came from.
func (t *Templates) Origins() (map[string]Origin, error) {
	entries, err := os.ReadDir(t.Home.Templates())
	out := map[string]Origin{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		o, originErr := t.origin(e.Name())
		if originErr == nil {
			out[e.Name()] = o
		}
		err = errors.Join(err, originErr)
	}
	return out, err
}

// trusts tells whether a machine may start from a template that is here.
func (t *Templates) trusts(template *Template) bool {
	return t.Team == nil || !t.Team.Distrusts(template.By)
}

// fetch gets a template that another machine made. It appears whole or not at all. False: there is
// none, or it does not come. That is no error: it is made here then.
func (t *Templates) fetch(ctx context.Context, m Machine, key string, progress agentbox.Progress) bool {
	if t.Team == nil {
		return false
	}
	by, err := t.install(ctx, m, key, progress)
	switch {
	case err == nil:
		progress.Say("the template comes from " + by)
		t.Team.TemplateMade()
	case agentbox.CodeOf(err) != agentbox.NotFound && ctx.Err() == nil:
		t.Log.Warn("a template of the team does not come", "key", Short(key), "error", err)
	}
	return err == nil
}

// install gets a template into a temporary directory beside the others and renames it when it is
// complete.
func (t *Templates) install(ctx context.Context, m Machine, key string, progress agentbox.Progress) (by string, err error) {
	dir, err := os.MkdirTemp(t.Home.Templates(), buildPrefix)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	move := func(done, total int) { progress.Move("template", "from the team", int64(done), int64(total)) }
	peer, by, err := t.Team.Template(ctx, key, dir, move)
	if err != nil {
		return "", err
	}
	if err := durable.WriteJSON(filepath.Join(dir, originFile), Origin{Image: m.Image, By: peer}, 0o600); err != nil {
		return "", err
	}
	if err := os.Rename(dir, t.Home.Template(key)); err != nil {
		return "", err
	}
	return by, durable.SyncDir(t.Home.Templates())
}

// offer says that a template was made here.
func (t *Templates) offer(m Machine, key string) error {
	err := durable.WriteJSON(filepath.Join(t.Home.Template(key), originFile), Origin{Image: m.Image}, 0o600)
	if err == nil && t.Team != nil {
		t.Team.TemplateMade()
	}
	return err
}

// withdraw takes a template back that goes.
func (t *Templates) withdraw(key string) error {
	if t.Team == nil {
		return nil
	}
	return t.Team.ForgetTemplate(context.Background(), key)
}
