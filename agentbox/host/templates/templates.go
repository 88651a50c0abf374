// Package templates has what boxes start from: machines that were booted once, came to rest and
// were saved, and the pool of those restored ahead of need. It gives machines to nobody: a box
// takes one from the pool, or restores its own.
//
// A template is a directory named by its key, a digest of everything that its machine depends on:
// kind, driver, kernel, hardware, sizes, image. So it is never changed, and one that does not fit
// any more is found by nobody; `prune` removes it. What is saved of a box's machine is relative to
// its template and fits no other, so templates that boxes were made from are kept.
//
// Nothing of a repository, a user or a policy is in a template: its machine was greeted with keys
// that nobody keeps, had no workspace, and its network led nowhere. So it may be shared with the
// team, as far as its maker is believed (team.go).
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
	"agentbox/agentbox/environment"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/keyed"
	"agentbox/vmm"
	"agentbox/vmm/guest"
	"agentbox/vmm/image"
)

// Config is what Templates need.
type Config struct {
	Home   home.Home
	Driver func(agentbox.Isolation) (vmm.Driver, error)
	Images Images
	Team   Team // the other machines; nil: none are asked
	Log    *slog.Logger
}

// Images are what machines boot from.
type Images interface {
	// Lazy gives the image of a file when it is not all here, nil when it is.
	Lazy(ctx context.Context, kind agentbox.Isolation, file string, progress agentbox.Progress) (*image.Image, error)
	// ReadLazily makes a machine of this process read it all the same, until stop is called, after
	// the machine.
	ReadLazily(ctx context.Context, spec *vmm.Spec, img image.Image) (stop func(), err error)
	// Stalled explains an error of such a machine by what it waits for, if it does.
	Stalled(img *image.Image, err error) error
}

// Templates opens templates, and gets from the team or builds those that are missing, out of date
// or damaged. Each is got by one caller while the others wait for it. keys is held while a template
// of that key is opened or got; mu guards loaded.
type Templates struct {
	Config
	keys keyed.Locks

	mu     sync.Mutex
	loaded map[string]*Template
}

// Template is verified and loaded; it stays so for as long as the daemon lives.
type Template struct {
	vmm.Template
	Origin
	Key string
}

// Name is the key, "" of no template at all.
func (t *Template) Name() string {
	if t == nil {
		return ""
	}
	return t.Key
}

// Machine is one that a template is for: what it depends on.
type Machine struct {
	Box       string // name, for messages
	Isolation agentbox.Isolation
	Image     agentbox.Digest
	Spec      vmm.Spec
}

// New gives the templates of a home, without what a killed daemon left half built.
func New(cfg Config) (*Templates, error) {
	t := &Templates{Config: cfg, loaded: map[string]*Template{}}
	return t, t.cleanup()
}

// BootTimeout bounds the boot of a template's machine. It is generous: a cold boot takes seconds
// even where everything is emulated.
const BootTimeout = 2 * time.Minute

// Open gives the template for a machine, getting or building it first where need be. It gives none
// where the machine is to boot by itself: its kind always does, or the template is by somebody who
// is not believed any more, and a box needs it still. The order: what is here, what the team has,
// what can be made. A template that is damaged is made again.
func (t *Templates) Open(ctx context.Context, m Machine, progress agentbox.Progress) (*Template, error) {
	driver, err := t.Driver(m.Isolation)
	if err != nil {
		return nil, err
	}
	snapshotter, ok := driver.(vmm.Snapshotter)
	if !ok {
		return nil, nil // this kind boots every time
	}
	key, err := keyOf(ctx, driver, m)
	if err != nil {
		return nil, err
	}
	defer t.keys.Lock(key)()
	got, err := t.loadOrDiscard(ctx, snapshotter, key, progress)
	if got != nil && !t.trusts(got) {
		progress.Say("the template is by a machine that is no builder of the team any more; booting without it")
		return nil, nil
	}
	if got != nil || err != nil {
		return got, err
	}
	if t.fetch(ctx, m, key, progress) {
		if got, err = t.loadOrDiscard(ctx, snapshotter, key, progress); got != nil || err != nil {
			return got, err
		}
	}
	if err := t.build(ctx, m, driver, snapshotter, key, progress); err != nil {
		return nil, agentbox.OrNoSpace(err)
	}
	return t.load(ctx, snapshotter, key)
}

// loadOrDiscard gives a template that is here, nil when there is none, or was one that is damaged.
func (t *Templates) loadOrDiscard(ctx context.Context, s vmm.Snapshotter, key string, progress agentbox.Progress) (*Template, error) {
	if _, err := os.Stat(t.Home.Template(key)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	got, err := t.load(ctx, s, key)
	if err == nil || agentbox.CodeOf(err) != agentbox.Corrupt && !errors.Is(err, os.ErrNotExist) {
		return got, err
	}
	progress.Say("the template is damaged and will be made again: " + err.Error())
	return nil, t.Discard(key)
}

// Has tells whether the template for a machine is here. It is not looked into, so Open may still
// find it damaged.
func (t *Templates) Has(ctx context.Context, m Machine) bool {
	driver, err := t.Driver(m.Isolation)
	if err != nil {
		return false
	}
	key, err := keyOf(ctx, driver, m)
	if err == nil {
		_, err = os.Stat(t.Home.Template(key))
	}
	return err == nil
}

// OpenKey gives a template that a saved state refers to. It cannot be built anew: the state fits no
// other. Conflict where the box's machine cannot come back under this version, Corrupt where the
// template is gone; both hint at a reset.
func (t *Templates) OpenKey(ctx context.Context, m Machine, key string) (*Template, error) {
	driver, err := t.Driver(m.Isolation)
	if err != nil {
		return nil, err
	}
	snapshotter, ok := driver.(vmm.Snapshotter)
	if !ok || key == "" {
		return nil, agentbox.Errorf(agentbox.Conflict, "box %s was booted without a template", m.Box)
	}
	if err := t.fits(ctx, driver, m, key); err != nil {
		return nil, err
	}
	defer t.keys.Lock(key)()
	got, err := t.load(ctx, snapshotter, key)
	if errors.Is(err, os.ErrNotExist) {
		return nil, agentbox.Errorf(agentbox.Corrupt, "the template %s of box %s is gone", Short(key), m.Box)
	}
	return got, err
}

// fits tells whether what is saved of a machine from this template can be restored here. A machine
// goes on under another agentbox, QEMU or kernel than it was started by, but what is saved of it
// then comes back nowhere.
func (t *Templates) fits(ctx context.Context, driver vmm.Driver, m Machine, key string) error {
	now, err := keyOf(ctx, driver, m)
	if err != nil || now == key {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "the machine of box %s is of another version (of agentbox, gVisor, QEMU or the kernel) than new ones here", m.Box).
		WithHint("agentbox reset %s gives it a new machine and keeps the workspace", m.Box)
}

// Savable fails before a machine from the template of a key is saved that could not be restored:
// what says what was to be done to its box.
func (t *Templates) Savable(ctx context.Context, m Machine, key, what string) error {
	if key == "" {
		return nil // saving it fails, and says so
	}
	driver, err := t.Driver(m.Isolation)
	if err == nil {
		err = t.fits(ctx, driver, m, key)
	}
	if agentbox.CodeOf(err) != agentbox.Conflict {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "box %s cannot be %s, because it could not come back: %w", m.Box, what, err).WithHint("%s", agentbox.AsError(err).Hint)
}

// Unneeded are the keys of the templates that are not in use.
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

// Short is what people are shown of a key.
func Short(key string) string { return key[:min(12, len(key))] }

// keyOf names a template by everything it depends on: the driver knows what that is
// (vmm.Driver.Fingerprint).
func keyOf(ctx context.Context, driver vmm.Driver, m Machine) (string, error) {
	fingerprint, err := driver.Fingerprint(ctx, m.Spec)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(string(m.Isolation) + "\x00" + fingerprint + "\x00" + m.Image.String()))
	return hex.EncodeToString(sum[:]), nil
}

// load opens a template once and keeps it open: mapping it again for each box would cost
// milliseconds. The caller holds its key.
func (t *Templates) load(ctx context.Context, s vmm.Snapshotter, key string) (*Template, error) {
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
	got = &Template{Template: opened, Origin: origin, Key: key}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded[key] = got
	return got, nil
}

// build boots a machine without a workspace, lets it come to rest and saves it. It is saved under
// its name by one rename, so a crash leaves nothing but a directory that cleanup removes.
func (t *Templates) build(ctx context.Context, m Machine, driver vmm.Driver, s vmm.Snapshotter, key string, progress agentbox.Progress) error {
	end := progress.Begin("template", "booting once")
	dir, err := os.MkdirTemp(t.Home.Templates(), buildPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	spec := m.Spec
	spec.Name, spec.Dir, spec.Workspace = "template-"+Short(key), dir, ""
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
	ctx, cancel := context.WithTimeout(ctx, BootTimeout)
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
	if err := s.SaveTemplate(ctx, machine, t.Home.Template(key)); err != nil {
		return fmt.Errorf("save the template: %w", err)
	}
	end(Short(key))
	return t.offer(m, key)
}

// restTime is how long a guest is left alone before it is saved: what it still has to do then,
// every clone would do again. It is not waited for, as the guest cannot tell that it has nothing to
// do.
const restTime = time.Second

// quiesce greets the guest with keys nobody keeps, has it run a command as clones will be asked to,
// so that its agent knows all the requests, asks it to come to rest, and lets it.
func quiesce(ctx context.Context, machine vmm.Machine) error {
	client, err := guest.Connect(ctx, machine.Stream(), guest.NewHello("agentbox"))
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

// ConsoleFile is the driver's file, in a machine's directory, with what the machine printed on its
// console.
const ConsoleFile = "console.log"

// withConsole adds the last line the machine printed: after a failed boot that is the best hint
// there is.
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

// buildPrefix begins the names of directories that are not templates yet.
const buildPrefix = ".build-"

// cleanup removes what a killed daemon left half built.
func (t *Templates) cleanup() error {
	left, err := filepath.Glob(filepath.Join(t.Home.Templates(), ".*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// Discard closes and removes a template. A template that boxes or the pool use must not be
// discarded: see Manager.DropTemplates and prune.
func (t *Templates) Discard(key string) error {
	if err := t.withdraw(key); err != nil {
		t.Log.Warn("a template that goes is still offered", "key", Short(key), "error", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if got := t.loaded[key]; got != nil {
		delete(t.loaded, key)
		if err := got.Close(); err != nil {
			return err
		}
	}
	return os.RemoveAll(t.Home.Template(key))
}

// Close closes them all.
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
