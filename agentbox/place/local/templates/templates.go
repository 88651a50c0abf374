// Package templates keeps what boxes start from: machines that were booted once, came to rest and
// were saved. It makes no boxes.
//
// Every machine has a key, a digest of everything it depends on: kind, driver, kernel, hardware,
// sizes, image. What is saved of a machine fits machines of the same key and no others. Where a
// restore is faster than a boot (vmm.Templater), there is a template for the key, a directory of
// that name. So it never changes; if it no longer fits, nothing looks it up and `prune` removes it.
// A saved machine is relative to its template, so templates that boxes were made from are kept. For
// other kinds, whose machines boot, the key is all that is used here.
//
// A template holds nothing of a repository, a user or a policy: its machine was greeted with keys
// that nobody keeps, had no workspace, and its network led nowhere. So it may be shared with a team
// whose members trust its maker (team.go).
package templates

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/keyed"
	"agentbox/agentbox/place"
	"agentbox/vmm"
	"agentbox/vmm/guest"
	"agentbox/vmm/image"
)

// Config is what Templates needs.
type Config struct {
	Home   home.Home
	Driver func(agentbox.Isolation) (vmm.Driver, error)
	Images Images
	Team   Team // nil: this machine is in no team
	Log    *slog.Logger
}

// Images are what machines boot from.
type Images interface {
	// Lazy returns the image of a file of which only a part is here, nil if it is complete.
	Lazy(ctx context.Context, kind agentbox.Isolation, file string, progress agentbox.Progress) (*image.Image, error)
	// ReadLazily lets a machine of this process read such an image until stop is called, after the
	// machine has ended.
	ReadLazily(ctx context.Context, spec *vmm.Spec, img image.Image) (stop func(), err error)
	// Stalled explains an error of such a machine by the bytes that it waits for, if it does.
	Stalled(img *image.Image, err error) error
}

// Templates opens templates, and fetches or builds those that are missing or damaged. One caller
// does so while others wait. keys is held while the template of a key is opened or made; mu guards
// loaded.
type Templates struct {
	Config
	keys keyed.Locks

	mu     sync.Mutex
	loaded map[string]*Template
}

// Template is a verified and loaded template. It stays loaded until it is discarded or the daemon
// ends.
type Template struct {
	vmm.Template
	place.Origin
}

// Machine is what a key stands for.
type Machine struct {
	Box       string // name, for messages
	Isolation agentbox.Isolation
	Image     agentbox.Digest
	Spec      vmm.Spec
}

// New opens the templates of a home and removes what a killed daemon left half built.
func New(cfg Config) (*Templates, error) {
	t := &Templates{Config: cfg, loaded: map[string]*Template{}}
	return t, t.cleanup()
}

// bootTimeout bounds the boot of a template's machine, which takes seconds even if everything is
// emulated, and more than a minute if the host is busy, too.
const bootTimeout = guest.BootTimeout + time.Minute

// Open returns the key of a machine, and its template: one that is here, else one from the team,
// else a new one. A damaged template is made again. Without a template the machine is to boot: its
// kind always does, or the template's maker is no longer trusted while a box still needs the
// template. key is "" if the machine could not be saved.
func (t *Templates) Open(ctx context.Context, m Machine, progress agentbox.Progress) (key string, got *Template, err error) {
	driver, err := t.Driver(m.Isolation)
	if err != nil {
		return "", nil, err
	}
	if _, ok := driver.(vmm.Snapshotter); !ok {
		return "", nil, nil
	}
	if key, err = keyOf(ctx, driver, m); err != nil {
		return "", nil, err
	}
	templater, ok := driver.(vmm.Templater)
	if !ok {
		return key, nil, nil
	}
	if got, err = t.open(ctx, m, driver, templater, key, progress); got == nil {
		return "", nil, err
	}
	return key, got, nil
}

func (t *Templates) open(ctx context.Context, m Machine, driver vmm.Driver, templater vmm.Templater, key string, progress agentbox.Progress) (*Template, error) {
	defer t.keys.Lock(key)()
	got, err := t.loadOrDiscard(ctx, templater, key, progress)
	if got != nil && !t.trusts(got) {
		progress.Note("the template is of a former builder of the team; booting without it")
		return nil, nil
	}
	if got != nil || err != nil {
		return got, err
	}
	if t.fetch(ctx, m, key, progress) {
		if got, err = t.loadOrDiscard(ctx, templater, key, progress); got != nil || err != nil {
			return got, err
		}
	}
	if err := t.build(ctx, m, driver, templater, key, progress); err != nil {
		return nil, agentbox.MarkNoSpace(err)
	}
	return t.load(ctx, templater, key)
}

// loadOrDiscard returns a template that is here. It returns nil if there is none, or if it was
// damaged and has been discarded.
func (t *Templates) loadOrDiscard(ctx context.Context, s vmm.Templater, key string, progress agentbox.Progress) (*Template, error) {
	if _, err := os.Stat(t.Home.Template(key)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	got, err := t.load(ctx, s, key)
	if err == nil || agentbox.CodeOf(err) != agentbox.Corrupt && !errors.Is(err, os.ErrNotExist) {
		return got, err
	}
	progress.Note("the template is damaged and will be made again: " + err.Error())
	return nil, t.Discard(key)
}

// OpenKey returns the template of a machine with this key, nil if its kind has none. Conflict if
// what is saved of the box's machine cannot be restored under this version, Corrupt if the template
// is gone; both hint at a reset.
func (t *Templates) OpenKey(ctx context.Context, m Machine, key string) (*Template, error) {
	driver, err := t.Driver(m.Isolation)
	if err != nil {
		return nil, err
	}
	if key == "" {
		return nil, agentbox.Errorf(agentbox.Conflict, "box %s was booted without a template", m.Box)
	}
	if err := t.checkRestorable(ctx, driver, m, key); err != nil {
		return nil, err
	}
	templater, ok := driver.(vmm.Templater)
	if !ok {
		return nil, nil
	}
	defer t.keys.Lock(key)()
	got, err := t.load(ctx, templater, key)
	if errors.Is(err, os.ErrNotExist) {
		return nil, agentbox.Errorf(agentbox.Corrupt, "the template %s of box %s is gone", place.ShortKey(key), m.Box)
	}
	return got, err
}

// checkRestorable returns Conflict if what is saved of a machine of this key cannot be restored
// here. A running machine survives a new agentbox, QEMU or kernel, but its saved state does not.
func (t *Templates) checkRestorable(ctx context.Context, driver vmm.Driver, m Machine, key string) error {
	now, err := keyOf(ctx, driver, m)
	if err != nil || now == key {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "the machine of box %s is of another version (of agentbox, gVisor, QEMU or the kernel) than new ones here", m.Box).
		WithHint("agentbox reset %s gives it a new machine and keeps the workspace", m.Box)
}

// CheckSavable fails if a machine that is to be saved could not be restored. what says what was to
// be done to its box.
func (t *Templates) CheckSavable(ctx context.Context, m Machine, key, what string) error {
	driver, err := t.Driver(m.Isolation)
	if err != nil {
		return err
	}
	if key == "" {
		return agentbox.Errorf(agentbox.Conflict, "box %s cannot be %s: it was booted, not restored from a template", m.Box, what).
			WithHint("agentbox reset %s starts it from one, and keeps only the workspace", m.Box)
	}
	err = t.checkRestorable(ctx, driver, m, key)
	if agentbox.CodeOf(err) != agentbox.Conflict {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "box %s cannot be %s, because it could not come back: %w", m.Box, what, err)
}

// Unneeded are the keys of templates that are not in used.
func (t *Templates) Unneeded(used map[string]bool) ([]string, error) {
	entries, err := os.ReadDir(t.Home.Templates())
	var out []string
	for _, e := range entries {
		if key := e.Name(); key[0] != '.' && !used[key] {
			out = append(out, key)
		}
	}
	return out, err
}

// keyOf is the key of a machine, by what its driver depends on (vmm.Driver.Fingerprint).
func keyOf(ctx context.Context, driver vmm.Driver, m Machine) (string, error) {
	fingerprint, err := driver.Fingerprint(ctx, m.Spec)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(string(m.Isolation) + "\x00" + fingerprint + "\x00" + m.Image.String()))
	return hex.EncodeToString(sum[:]), nil
}

// load opens a template once and keeps it open, because mapping it for each box would cost
// milliseconds. The caller holds its key.
func (t *Templates) load(ctx context.Context, s vmm.Templater, key string) (*Template, error) {
	t.mu.Lock()
	got := t.loaded[key]
	t.mu.Unlock()
	if got != nil {
		return got, nil
	}
	dir := t.Home.Template(key)
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	origin, err := t.origin(key)
	if err != nil {
		return nil, err
	}
	opened, err := s.OpenTemplate(ctx, dir)
	if err != nil {
		return nil, err
	}
	got = &Template{Template: opened, Origin: origin}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded[key] = got
	return got, nil
}

// build boots a machine without a workspace, lets it come to rest and saves it.
func (t *Templates) build(ctx context.Context, m Machine, driver vmm.Driver, s vmm.Templater, key string, progress agentbox.Progress) error {
	end := progress.Begin("template", "booting once")
	dir, err := os.MkdirTemp(t.Home.Templates(), buildPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	spec := m.Spec
	spec.Name, spec.Dir, spec.Workspace = "template-"+place.ShortKey(key), dir, ""
	img, err := t.Images.Lazy(ctx, m.Isolation, spec.Image, progress)
	if err != nil {
		return err
	}
	if img != nil {
		stop, err := t.Images.ReadLazily(ctx, &spec, *img)
		if err != nil {
			return err
		}
		defer stop()
	}
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	machine, err := driver.Boot(ctx, spec)
	if err != nil {
		return t.Images.Stalled(img, err)
	}
	defer machine.Kill()
	if err := quiesce(ctx, machine); err != nil {
		if stalled := t.Images.Stalled(img, err); stalled != err {
			return stalled
		}
		return withConsole(err, filepath.Join(dir, ConsoleFile))
	}
	if err := t.save(ctx, s, machine, key, place.Origin{Image: m.Image}); err != nil {
		return fmt.Errorf("save the template: %w", err)
	}
	end(place.ShortKey(key))
	if t.Team != nil {
		t.Team.TemplateMade()
	}
	return nil
}

func (t *Templates) save(ctx context.Context, s vmm.Templater, machine vmm.Machine, key string, from place.Origin) error {
	dir, err := os.MkdirTemp(t.Home.Templates(), buildPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	saved := filepath.Join(dir, "saved")
	if err := s.SaveTemplate(ctx, machine, saved); err != nil {
		return err
	}
	return t.publish(saved, key, from)
}

// publish turns dir, which has the files of a template, into the template of a key. It gets the
// name by one rename when it has everything, so a crash leaves a whole template, or only a
// directory that cleanup removes.
func (t *Templates) publish(dir, key string, from place.Origin) error {
	err := durable.WriteJSON(filepath.Join(dir, originFile), from, 0o600)
	if err == nil {
		err = durable.SyncDir(dir)
	}
	if err == nil {
		err = os.Rename(dir, t.Home.Template(key))
	}
	if err == nil {
		err = durable.SyncDir(t.Home.Templates())
	}
	return err
}

// settleTime is how long a guest is left alone before it is saved, since every clone would repeat
// what it has yet to do. The guest cannot tell when it has nothing to do.
const settleTime = time.Second

// quiesce greets the guest with keys nobody keeps, runs a command as clones will, so that its agent
// has seen each request, and lets it come to rest.
func quiesce(ctx context.Context, machine vmm.Machine) error {
	client, err := guest.Greet(ctx, machine, guest.NewHello("agentbox"))
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
	case <-time.After(settleTime):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ConsoleFile, in a machine's directory, has what the machine printed on its console. The driver
// writes it.
const ConsoleFile = "console.log"

// withConsole adds the last line that the machine printed, the best hint after a failed boot.
func withConsole(err error, console string) error {
	b, rerr := os.ReadFile(console)
	if rerr != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return agentbox.Errorf(agentbox.Internal, "%w", err).WithHint("the machine's last words: %s", last)
	}
	return err
}

// These begin the names of directories that are not templates yet, and of those that were.
const (
	buildPrefix   = ".build-"
	discardPrefix = ".discard-"
)

// cleanup removes what a killed daemon left half built or half removed.
func (t *Templates) cleanup() error {
	left, err := filepath.Glob(filepath.Join(t.Home.Templates(), ".*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// Discard closes and removes a template. No box and no machine of the pool may use it: see
// Manager.DropTemplates and prune.
func (t *Templates) Discard(key string) error {
	if err := t.withdraw(key); err != nil {
		t.Log.Warn("a template that goes is still offered", "key", place.ShortKey(key), "error", err)
	}
	// The name goes first: half a template might be one without its origin.
	gone := filepath.Join(t.Home.Templates(), discardPrefix+key)
	err := os.RemoveAll(gone)
	if err == nil {
		err = os.Rename(t.Home.Template(key), gone)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if got := t.loaded[key]; got != nil {
		delete(t.loaded, key)
		err = errors.Join(err, got.Close())
	}
	return errors.Join(err, os.RemoveAll(gone))
}

// Close closes all templates.
func (t *Templates) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, got := range t.loaded {
		if err := got.Close(); err != nil {
			t.Log.Warn("cannot close a template", "key", key, "error", err)
		}
		delete(t.loaded, key)
	}
}
