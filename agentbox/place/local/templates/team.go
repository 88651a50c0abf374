package templates

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/place"
	"agentbox/vmm/kernel"
)

// Team is what templates need from the other machines of a team (agentbox/team).
type Team interface {
	// Template fills dir, which is empty, with a template that another machine made for a key. by
	// identifies that machine for IsRevoked, name is for people. NotFound if nobody offers it.
	// progress may be nil.
	Template(ctx context.Context, key, dir string, progress func(done, total int)) (by, name string, err error)
	// TemplateMade says that there is a new template here. It does not block.
	TemplateMade()
	// ForgetTemplate withdraws the offer of a template that is no longer here.
	ForgetTemplate(ctx context.Context, key string) error
	// IsRevoked tells whether what a member made must not be used. "" is this machine.
	IsRevoked(by string) bool
}

// originFile is beside a template's files; without it, it was made here, from an unknown image.
const originFile = kernel.FileOrigin

// origin reads where a template came from; the zero Origin if there is no file.
func (t *Templates) origin(key string) (place.Origin, error) {
	var o place.Origin
	if err := durable.ReadJSON(filepath.Join(t.Home.Template(key), originFile), &o); err != nil {
		return o, agentbox.Errorf(agentbox.Corrupt, "the origin of a template is unknown: %w", err)
	}
	return o, nil
}

// Origins returns where each template that is here came from.
func (t *Templates) Origins() (map[string]place.Origin, error) {
	entries, err := os.ReadDir(t.Home.Templates())
	out := map[string]place.Origin{}
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

// trusts tells whether machines may start from a template.
func (t *Templates) trusts(template *Template) bool {
	return t.Team == nil || !t.Team.IsRevoked(template.By)
}

// fetch gets a template that another machine made, as a whole or not at all. False means that none
// could be fetched, which is no error: it is made here then.
func (t *Templates) fetch(ctx context.Context, m Machine, key string, progress agentbox.Progress) bool {
	if t.Team == nil {
		return false
	}
	by, err := t.install(ctx, m, key, progress)
	switch {
	case err == nil:
		progress.Note("the template comes from " + by)
		t.Team.TemplateMade()
	case agentbox.CodeOf(err) != agentbox.NotFound && ctx.Err() == nil:
		t.Log.Warn("a template of the team does not come", "key", place.ShortKey(key), "error", err)
	}
	return err == nil
}

// install fetches a template into a temporary directory beside the others.
func (t *Templates) install(ctx context.Context, m Machine, key string, progress agentbox.Progress) (by string, err error) {
	dir, err := os.MkdirTemp(t.Home.Templates(), buildPrefix)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	move := func(done, total int) { progress.Update("template", "from the team", int64(done), int64(total)) }
	peer, by, err := t.Team.Template(ctx, key, dir, move)
	if err != nil {
		return "", err
	}
	return by, t.publish(dir, key, place.Origin{Image: m.Image, By: peer})
}

func (t *Templates) withdraw(key string) error {
	if t.Team == nil {
		return nil
	}
	return t.Team.ForgetTemplate(context.Background(), key)
}
