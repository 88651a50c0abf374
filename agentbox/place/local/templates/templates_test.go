package templates

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox/place"
	"agentbox/vmm"
)

// saver makes templates of one file. With blocked, nothing can be written about their origin.
type saver struct {
	vmm.Templater
	blocked bool
}

func (s saver) SaveTemplate(_ context.Context, _ vmm.Machine, dir string) error {
	if s.blocked {
		return os.MkdirAll(filepath.Join(dir, originFile), 0o700)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "memory"), []byte(wholeTemplate), 0o600)
}

// A template without its origin would count as one of this machine, made from no known image.
func TestTemplateHasOriginOrIsNone(t *testing.T) {
	all := newTemplates(t, nil)
	from := place.Origin{Image: some.Image}
	if err := all.save(t.Context(), saver{blocked: true}, nil, "key", from); err == nil {
		t.Error("an origin was written over a directory")
	}
	if left, err := os.ReadDir(all.Home.Templates()); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := all.save(t.Context(), saver{}, nil, "key", from); err != nil {
		t.Fatal(err)
	}
	if origins, err := all.Origins(); err != nil || len(origins) != 1 || origins["key"] != from {
		t.Errorf("%v, %v", origins, err)
	}
	if got, err := all.load(t.Context(), fakeDriver{}, "key"); err != nil || got.Origin != from {
		t.Errorf("%+v, %v", got, err)
	}
}

// A removal that is cut short must not leave a template without its origin.
func TestDiscardedTemplateLosesItsNameFirst(t *testing.T) {
	all := newTemplates(t, nil)
	if err := all.save(t.Context(), saver{}, nil, "key", place.Origin{Image: some.Image, By: "peer"}); err != nil {
		t.Fatal(err)
	}
	named := true
	all.loaded["key"] = &Template{Template: fakeTemplate{dir: all.Home.Template("key"), named: &named}}
	if err := all.Discard("key"); err != nil || named {
		t.Errorf("%v, still named when it was closed: %v", err, named)
	}
	if left, err := os.ReadDir(all.Home.Templates()); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := all.Discard("key"); err != nil {
		t.Errorf("again: %v", err)
	}
}
