package templates

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/vmm"
	"agentbox/vmm/image"
)

// fakeTeam has a template, and says of one member that its word does not count.
type fakeTeam struct {
	files     map[string][]byte // of the template; nil: nobody offers one
	asked     []string
	made      int
	forgotten []string
	distrusts string
}

func (f *fakeTeam) Template(_ context.Context, key, dir string, _ func(done, total int)) (by, name string, err error) {
	f.asked = append(f.asked, key)
	if f.files == nil {
		return "", "", agentbox.Errorf(agentbox.NotFound, "nobody offers it")
	}
	for name, b := range f.files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return "", "", err
		}
	}
	return "peer", "ann", nil
}

func (f *fakeTeam) TemplateMade() { f.made++ }
func (f *fakeTeam) ForgetTemplate(_ context.Context, key string) error {
	f.forgotten = append(f.forgotten, key)
	return nil
}
func (f *fakeTeam) IsRevoked(by string) bool { return by != "" && by == f.distrusts }

// noImages are never needed: what is not got from the team would be booted.
type noImages struct{}

func (noImages) Lazy(context.Context, agentbox.Isolation, string, agentbox.Progress) (*image.Image, error) {
	return nil, errBoots
}
func (noImages) ReadLazily(context.Context, *vmm.Spec, image.Image) (func(), error) {
	return nil, errBoots
}
func (noImages) Stalled(_ *image.Image, err error) error { return err }

var errBoots = agentbox.Errorf(agentbox.Unavailable, "a machine would be booted")

func newTemplates(t *testing.T, team Team) *Templates {
	t.Helper()
	h := home.Home{Dir: t.TempDir()}
	if err := os.MkdirAll(h.Templates(), 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := New(Config{
		Home: h, Driver: func(agentbox.Isolation) (vmm.Driver, error) { return fakeDriver{}, nil }, Images: noImages{}, Team: team, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Close)
	return all
}

// fakeDriver has templates of one file, which says whether it is whole.
type fakeDriver struct {
	vmm.Driver
	vmm.Templater
}

const wholeTemplate = "memory, to the last byte"

func (fakeDriver) Fingerprint(_ context.Context, s vmm.Spec) (string, error) {
	return fmt.Sprint(s.CPUs, s.Memory, s.Disk), nil
}

func (fakeDriver) OpenTemplate(_ context.Context, dir string) (vmm.Template, error) {
	b, err := os.ReadFile(filepath.Join(dir, "memory"))
	if err != nil || string(b) != wholeTemplate {
		return nil, agentbox.Errorf(agentbox.Corrupt, "%s is damaged: %w", dir, err)
	}
	return fakeTemplate{}, nil
}

// fakeTemplate tells, when it is closed, whether it still has its name.
type fakeTemplate struct {
	vmm.Template
	dir   string
	named *bool
}

func (f fakeTemplate) Close() error {
	if f.named != nil {
		_, err := os.Stat(f.dir)
		*f.named = err == nil
	}
	return nil
}

// saved are the files of a template as another machine has made it.
func saved() map[string][]byte { return map[string][]byte{"memory": []byte(wholeTemplate)} }

var some = Machine{Box: "b", Isolation: agentbox.MicroVM, Image: agentbox.Digest{1}, Spec: vmm.Spec{CPUs: 1, Memory: 1 << 30, Disk: 1 << 30}}

func TestTeamTemplateNeedsNoBoot(t *testing.T) {
	team := &fakeTeam{files: saved()}
	all := newTemplates(t, team)
	key, got, err := all.Open(t.Context(), some, nil)
	if err != nil || got.By != "peer" || got.Image != some.Image || team.made != 1 {
		t.Fatalf("%+v, %v, said %d times", got, err, team.made)
	}
	if same, again, err := all.Open(t.Context(), some, nil); err != nil || again != got || same != key || len(team.asked) != 1 {
		t.Errorf("%v, asked for %v", err, team.asked)
	}
	origins, err := all.Origins()
	if err != nil || len(origins) != 1 || origins[key] != (place.Origin{Image: some.Image, By: "peer"}) {
		t.Errorf("%v, %v", origins, err)
	}

	// A machine that is another is another key.
	larger := some
	larger.Spec.Memory *= 2
	team.files = nil
	if _, _, err := all.Open(t.Context(), larger, nil); err != errBoots || team.asked[1] == key {
		t.Errorf("%v, asked for %v", err, team.asked)
	}

	// Whose word does not count: new machines boot by themselves, boxes that were made from it go on.
	team.distrusts = "peer"
	if key, got, err := all.Open(t.Context(), some, nil); key != "" || got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if same, err := all.OpenKey(t.Context(), some, key); same != got || err != nil {
		t.Errorf("%+v, %v", same, err)
	}
	if err := all.Discard(key); err != nil || len(team.forgotten) != 1 || team.forgotten[0] != key {
		t.Errorf("%v, %v", err, team.forgotten)
	}
}

// What came is not what it says: it goes, and the machine is booted here.
func TestDamagedTeamTemplate(t *testing.T) {
	for what, change := range map[string]func(files map[string][]byte){
		"nothing in it": clearFiles,
		"a file is cut off": func(files map[string][]byte) {
			for name, b := range files {
				files[name] = b[:len(b)/2]
			}
		},
	} {
		team := &fakeTeam{files: saved()}
		change(team.files)
		all := newTemplates(t, team)
		if _, got, err := all.Open(t.Context(), some, nil); err != errBoots {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		if origins, err := all.Origins(); err != nil || len(origins) != 0 || len(team.forgotten) != 1 {
			t.Errorf("%s: %v is left, %v, forgotten %v", what, origins, err, team.forgotten)
		}
	}
}

func clearFiles(files map[string][]byte) { clear(files) }

// Nobody can tell who made it.
func TestUnknownOriginIsDamage(t *testing.T) {
	team := &fakeTeam{files: saved()}
	all := newTemplates(t, team)
	key, _, err := all.Open(t.Context(), some, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(all.Home.Template(key), originFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := newTemplates(t, team)
	again.Home = all.Home
	if _, anew, err := again.Open(t.Context(), some, nil); err != nil || anew.By != "peer" || len(team.asked) != 2 {
		t.Errorf("%+v, %v, asked %v", anew, err, team.asked)
	}
}
