package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/vmm"
	"agentbox/vmm/guest"
)

// templates opens templates, and builds those that are missing, out of date or damaged. Each is built by one caller while
// the others wait for it.
type templates struct {
	m      *Manager
	mu     sync.Mutex
	loaded map[string]*openTemplate
	lock   map[string]*sync.Mutex
}

// openTemplate is verified and loaded; it stays so for as long as the daemon lives.
type openTemplate struct {
	vmm.Template
	key  string
	spec vmm.Spec
	kind agentbox.Isolation
}

// name is the key, "" of no template at all.
func (t *openTemplate) name() string {
	if t == nil {
		return ""
	}
	return t.key
}

func newTemplates(m *Manager) *templates {
	return &templates{m: m, loaded: map[string]*openTemplate{}, lock: map[string]*sync.Mutex{}}
}

// bootTimeout is generous: a cold boot takes seconds even where everything is emulated.
const bootTimeout = 2 * time.Minute

// open gives the template for a box of this record, building it first where need be.
func (t *templates) open(ctx context.Context, rec record, progress agentbox.Progress) (*openTemplate, error) {
	driver, err := t.m.chooser.Driver(rec.Box.Isolation)
	if err != nil {
		return nil, err
	}
	snapshotter, ok := driver.(vmm.Snapshotter)
	if !ok {
		return nil, nil // this kind boots every time
	}
	spec := rec.spec(t.m.home)
	key, err := t.key(ctx, driver, rec, spec)
	if err != nil {
		return nil, err
	}
	lock := t.lockOf(key)
	lock.Lock()
	defer lock.Unlock()
	got, err := t.load(ctx, snapshotter, key, spec, rec.Box.Isolation)
	if err == nil {
		return got, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		if agentbox.CodeOf(err) != agentbox.Corrupt {
			return nil, err
		}
		progress.Say("the template is damaged and will be made again: " + err.Error())
		if err := t.discard(key); err != nil {
			return nil, err
		}
	}
	if err := t.build(ctx, rec.Box.Isolation, driver, snapshotter, key, spec, progress); err != nil {
		return nil, agentbox.OrNoSpace(err)
	}
	return t.load(ctx, snapshotter, key, spec, rec.Box.Isolation)
}

// openKey gives a template that a saved state refers to. It cannot be built anew: the state fits no other.
func (t *templates) openKey(ctx context.Context, rec record, key string) (*openTemplate, error) {
	driver, err := t.m.chooser.Driver(rec.Box.Isolation)
	if err != nil {
		return nil, err
	}
	snapshotter, ok := driver.(vmm.Snapshotter)
	if !ok || key == "" {
		return nil, agentbox.Errorf(agentbox.Conflict, "box %s was booted without a template", rec.Box.Name)
	}
	if err := t.fits(ctx, driver, rec, key); err != nil {
		return nil, err
	}
	lock := t.lockOf(key)
	lock.Lock()
	defer lock.Unlock()
	got, err := t.load(ctx, snapshotter, key, rec.spec(t.m.home), rec.Box.Isolation)
	if errors.Is(err, os.ErrNotExist) {
		return nil, agentbox.Errorf(agentbox.Corrupt, "the template %s of box %s is gone", short(key), rec.Box.Name)
	}
	return got, err
}

// fits tells whether what is saved of a machine from this template can be restored here. A machine goes on under another
// agentbox, QEMU or kernel than it was started by, but what is saved of it then comes back nowhere.
func (t *templates) fits(ctx context.Context, driver vmm.Driver, rec record, key string) error {
	now, err := t.key(ctx, driver, rec, rec.spec(t.m.home))
	if err != nil || now == key {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "the machine of box %s is of another version (of agentbox, gVisor, QEMU or the kernel) than new ones here", rec.Box.Name).
		WithHint("agentbox reset %s gives it a new machine and keeps the workspace", rec.Box.Name)
}

// savable fails before a machine is saved that could not be restored.
func (m *Manager) savable(ctx context.Context, rec record, what string) error {
	if rec.Box.Template == "" {
		return nil // whoever saves it says so
	}
	driver, err := m.chooser.Driver(rec.Box.Isolation)
	if err == nil {
		err = m.templates.fits(ctx, driver, rec, rec.Box.Template)
	}
	if agentbox.CodeOf(err) != agentbox.Conflict {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "box %s cannot be %s, because it could not come back: %w", rec.Box.Name, what, err).WithHint("%s", agentbox.AsError(err).Hint)
}

func short(key string) string { return key[:min(12, len(key))] }

// key names a template by everything it depends on.
func (t *templates) key(ctx context.Context, driver vmm.Driver, rec record, spec vmm.Spec) (string, error) {
	fingerprint, err := driver.Fingerprint(ctx, spec)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(string(rec.Box.Isolation) + "\x00" + fingerprint + "\x00" + rec.Box.Image.String()))
	return hex.EncodeToString(sum[:]), nil
}

func (t *templates) lockOf(key string) *sync.Mutex {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lock[key] == nil {
		t.lock[key] = &sync.Mutex{}
	}
	return t.lock[key]
}

func (t *templates) load(ctx context.Context, s vmm.Snapshotter, key string, spec vmm.Spec, kind agentbox.Isolation) (*openTemplate, error) {
	t.mu.Lock()
	got := t.loaded[key]
	t.mu.Unlock()
	if got != nil {
		return got, nil
	}
	dir := t.m.home.Template(key)
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	opened, err := s.OpenTemplate(ctx, dir)
	if err != nil {
		return nil, err
	}
	got = &openTemplate{Template: opened, key: key, spec: spec, kind: kind}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded[key] = got
	return got, nil
}

// build boots a machine without a workspace, lets it come to rest and saves it.
func (t *templates) build(ctx context.Context, kind agentbox.Isolation, driver vmm.Driver, s vmm.Snapshotter, key string, spec vmm.Spec, progress agentbox.Progress) error {
	end := progress.Begin("template", "booting once")
	dir, err := os.MkdirTemp(t.m.home.Templates(), buildPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	spec.Name, spec.Dir, spec.Workspace = "template-"+short(key), dir, ""
	img, err := t.m.Images.Lazy(ctx, kind, spec.Image, progress)
	if err != nil {
		return err
	}
	if img != nil {
		stop, err := t.m.Images.ReadLazily(ctx, &spec, *img)
		if err != nil {
			return err
		}
		defer stop()
	}
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	machine, err := driver.Boot(ctx, spec)
	if err != nil {
		return t.m.Images.Starved(img, err)
	}
	defer machine.Kill()
	if err := quiesce(ctx, machine); err != nil {
		if hungry := t.m.Images.Starved(img, err); hungry != err {
			return hungry
		}
		return withConsole(err, filepath.Join(dir, consoleName))
	}
	if err := s.SaveTemplate(ctx, machine, t.m.home.Template(key)); err != nil {
		return fmt.Errorf("save the template: %w", err)
	}
	end(short(key))
	return nil
}

// restTime is how long a guest is left alone before it is saved: what it still has to do then, every clone would do again.
const restTime = time.Second

// quiesce greets the guest with keys nobody keeps, has it run a command as clones will be asked to, so that its agent knows all the
// requests, asks it to come to rest, and lets it.
func quiesce(ctx context.Context, machine vmm.Machine) error {
	keys, err := guest.NewKeys()
	if err != nil {
		return err
	}
	client, err := guest.Connect(ctx, machine.Stream(), keys.Hello("agentbox"), keys)
	if err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "the machine boots but its agent does not answer: %w", err)
	}
	if _, err := environment.Exec(ctx, client.SSH(), environment.Command{Argv: []string{"true"}, Dir: "/"}); err != nil {
		return fmt.Errorf("warm up with a command: %w", err)
	}
	if err := client.Quiesce(ctx); err != nil {
		return err
	}
	select {
	case <-time.After(restTime):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// withConsole adds the last line the machine printed: after a failed boot that is the best hint there is.
func withConsole(err error, console string) error {
	b, rerr := os.ReadFile(console)
	if rerr != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return agentbox.Errorf(agentbox.CodeOf(err), "%w", err).WithHint("the machine's last words: %s", last)
	}
	return err
}

const buildPrefix = ".build-"

// cleanup removes what a killed daemon left half built.
func (t *templates) cleanup() error {
	left, err := filepath.Glob(filepath.Join(t.m.home.Templates(), ".*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// discard closes and removes a template.
func (t *templates) discard(key string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if got := t.loaded[key]; got != nil {
		delete(t.loaded, key)
		if err := got.Close(); err != nil {
			return err
		}
	}
	return os.RemoveAll(t.m.home.Template(key))
}

func (t *templates) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, got := range t.loaded {
		if err := got.Close(); err != nil {
			t.m.log.Warn("cannot close a template", "key", key, "error", err)
		}
		delete(t.loaded, key)
	}
}
