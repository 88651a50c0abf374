package team

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
	"agentbox/agentbox/layers"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/mesh"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
	"agentbox/vmm/image"
)

// machine is one of a team, with everything but boxes.
type machine struct {
	*Team
	mesh     *mesh.Mesh
	key      ed25519.PrivateKey
	dir      string
	dropped  chan agentbox.Digest
	contexts atomic.Pointer[[]Context]
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	m := &machine{Team: New(), dir: dir, dropped: make(chan agentbox.Digest, 16)}
	key, err := layers.SigningKey(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	store := layers.OpenAsync(ctx, cachestore.Config{Dir: filepath.Join(dir, "store"), Key: key, Log: log, Trusted: m.Trusts, OnNameChange: m.Notify, Grace: -1}, nil)
	m.Images = &layers.Images{
		Store: store.Store, Remotes: &layers.Remotes{File: filepath.Join(dir, "places"), Peers: m.Peers}, Key: key.Public().(ed25519.PublicKey),
	}
	m.SetupResults, m.Log = layers.SetupResults{Store: store.Store}, log
	m.Sharing = &layers.Sharing{Store: store.Store, File: filepath.Join(dir, "shared"), Changed: m.SharingChanged}
	if m.Files, err = image.Open(ctx, filepath.Join(dir, "images")); err != nil {
		t.Fatal(err)
	}
	m.Files.FindRemote = m.Image
	m.contexts.Store(&[]Context{})
	m.Contexts = func(context.Context) ([]Context, error) { return *m.contexts.Load(), nil }
	m.DropImage = func(_ context.Context, d agentbox.Digest) bool {
		select {
		case m.dropped <- d:
		default:
		}
		return true
	}
	m.key = key
	m.join(t)
	var work sync.WaitGroup
	work.Go(func() { m.Run(ctx) })
	t.Cleanup(func() {
		stop()
		work.Wait()
		if err := errors.Join(m.mesh.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// join opens the machine's part in its team, as a daemon does that begins.
func (m *machine) join(t *testing.T) {
	t.Helper()
	var err error
	m.mesh, err = mesh.Open(mesh.Config{Dir: filepath.Join(m.dir, "mesh"), Key: m.key, Log: m.Log, Attach: m.Attach, OnCatalogueChange: m.Changed, OnListChange: m.Notify})
	if err != nil {
		t.Fatal(err)
	}
	m.Join(m.mesh)
}

const loopback = "127.0.0.1:0"

// newTeam makes a team whose first machine is a builder, as the others are where builders says so.
func newTeam(t *testing.T, builders ...bool) []*machine {
	t.Helper()
	all := []*machine{newMachine(t)}
	if err := all[0].mesh.Init("m0", loopback); err != nil {
		t.Fatal(err)
	}
	for _, b := range builders {
		var roles []identity.Role
		if b {
			roles = append(roles, identity.Builder)
		}
		_, token, err := all[0].mesh.Invite(time.Minute, roles, nil)
		if err != nil {
			t.Fatal(err)
		}
		m := newMachine(t)
		if err := m.mesh.Join(t.Context(), token, "m", loopback); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	for _, m := range all {
		eventually(t, "everybody is here", func() bool { return len(m.mesh.OnlinePeers()) == len(builders) })
	}
	return all
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened: %s", what)
		}
	}
}

// build puts an image of a few blocks onto a machine, as if it had been built there.
func (m *machine) build(t *testing.T, seed byte, include ...image.Include) image.Image {
	t.Helper()
	return m.buildOf(t, [32]byte{seed}, include...)
}

func (m *machine) buildOf(t *testing.T, seed [32]byte, include ...image.Include) image.Image {
	t.Helper()
	content := make([]byte, 3*blob.BlockSize+100)
	rand.NewChaCha8(seed).Read(content)
	file := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	img := image.Image{
		Digest: blob.Sum(content), Name: "test", Source: "apt:test", Size: int64(len(content)), Include: include, Versions: []string{"git=1"},
		Key: "derived-" + blob.Sum(seed[:]).Hex(), Lazy: &image.Lazy{Manifest: agentbox.Digest{1}, From: "nowhere"},
	}
	if _, err := m.Files.AddLazy(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	if err := m.Files.Completed(t.Context(), img.Digest, file); err != nil {
		t.Fatal(err)
	}
	whole, err := m.Files.Get(img.Digest.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Images.Add(t.Context(), whole, 0); err != nil {
		t.Fatal(err)
	}
	return whole
}

func (m *machine) knows(kind catalogue.Kind, key string) bool {
	return len(m.mesh.Catalogues().Lookup(kind, key)) > 0
}

func TestFindImageByDigestAndKey(t *testing.T) {
	all := newTeam(t, false, false)
	built, needs := all[0], all[1]
	img := built.build(t, 1)
	for i, ask := range []struct {
		pin agentbox.Digest
		key string
	}{{pin: img.Digest}, {key: img.Key}} {
		needs := all[1+i]
		eventually(t, "the image is offered", func() bool { return needs.knows(catalogue.Image, img.Digest.Hex()) })
		got, err := needs.Image(t.Context(), ask.pin, ask.key)
		if err != nil {
			t.Fatal(err)
		}
		if got.Digest != img.Digest || got.Versions[0] != "git=1" || got.Lazy == nil || got.Lazy.From != layers.Team || got.Origin != built.mesh.Self().String() {
			t.Errorf("%+v", got)
		}
		if _, err := needs.Files.AddLazy(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		f, err := needs.Images.OpenLazyImage(t.Context(), got)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Complete(t.Context(), nil), needs.Files.Completed(t.Context(), got.Digest, f.Path()), f.Close()); err != nil {
			t.Error(err)
		}
	}
	if _, err := needs.Image(t.Context(), agentbox.Digest{9}, ""); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Error(err)
	}
	// Who made it is a builder no more.
	if err := built.mesh.SetRoles(built.mesh.Self(), []identity.Role{identity.Admin}); err != nil {
		t.Fatal(err)
	}
	select {
	case d := <-needs.dropped:
		if d != img.Digest {
			t.Error(d)
		}
	case <-time.After(5 * time.Minute):
		t.Error("the image stays")
	}
	eventually(t, "its name goes", func() bool {
		names, err := needs.SetupResults.Revoked(t.Context())
		return err == nil && len(names) == 0
	})
	if _, err := needs.Image(t.Context(), img.Digest, ""); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Error(err)
	}
	here, err := needs.Files.Get(img.Digest.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := needs.Images.Add(t.Context(), here, 0); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("what a former builder made is named as ours: %v", err)
	}
}

func TestOnlyBuildersAreTrusted(t *testing.T) {
	all := newTeam(t, false)
	img := all[1].build(t, 2)
	eventually(t, "the image is offered", func() bool { return all[0].knows(catalogue.Image, img.Digest.Hex()) })
	if _, err := all[0].Image(t.Context(), img.Digest, ""); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Error(err)
	}
}

func TestHostFilesAreNotOffered(t *testing.T) {
	all := newTeam(t, false)
	secret := all[0].build(t, 3, image.Include{From: "/home/ann/.netrc", To: "/root/.netrc"})
	open := all[0].build(t, 4)
	eventually(t, "the other image is offered", func() bool { return all[1].knows(catalogue.Image, open.Digest.Hex()) })
	if all[1].knows(catalogue.Image, secret.Digest.Hex()) {
		t.Error("it is offered")
	}
	n, err := all[0].Images.Add(t.Context(), secret, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all[1].Peers().Manifest(t.Context(), n); err == nil {
		t.Error("it is served to who knows its digest")
	}
}

// result publishes what setup would make.
func (m *machine) result(ctx context.Context, t *testing.T, in caches.Ingredients) error {
	file := filepath.Join(t.TempDir(), "part.tar")
	if err := os.WriteFile(file, make([]byte, 10240), 0o600); err != nil {
		return err
	}
	made := caches.Result{Key: in.Key(), Ingredients: in, Parts: []caches.Part{caches.Dirs}}
	return m.SetupResults.Publish(ctx, made, map[caches.Part]string{caches.Dirs: file})
}

// All begin at once, as nobody knows of the others yet. All but one of them leave off, and get what
// that one made.
func TestOnceRunsOnOneMachine(t *testing.T) {
	all := newTeam(t, true, true)
	in := caches.Ingredients{Project: "p", Image: agentbox.Digest{1}, Setup: []string{"make"}, Lockfiles: map[string]agentbox.Digest{}}
	var making, waiting, made atomic.Int32
	release := make(chan struct{})
	var wg sync.WaitGroup
	for _, m := range all {
		wg.Go(func() {
			get := func(ctx context.Context) error {
				_, err := m.Setup(ctx, in.Key(), nil)
				return err
			}
			err := m.MakeOnce(t.Context(), "setup/"+in.Key().Hex(), func(string) { waiting.Add(1) }, get, func(ctx context.Context) error {
				making.Add(1)
				defer making.Add(-1)
				select {
				case <-release:
				case <-ctx.Done():
					return ctx.Err()
				}
				made.Add(1)
				return m.result(ctx, t, in)
			})
			if err != nil {
				t.Error(err)
			}
			if made, err := m.SetupResults.Find(t.Context(), in.Key()); err != nil || made.Key != in.Key() {
				t.Errorf("%+v, %v", made, err)
			}
		})
	}
	eventually(t, "one makes it and the others wait", func() bool { return making.Load() == 1 && waiting.Load() >= 2 })
	close(release)
	wg.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("made %d times", n)
	}
}

// Who made it fails, so another one does.
func TestFailureReleasesClaim(t *testing.T) {
	all := newTeam(t, true)
	fails := errors.New("no")
	none := func(context.Context) error { return agentbox.Errorf(agentbox.NotFound, "nobody") }
	began, end := make(chan struct{}), make(chan struct{})
	go func() {
		_ = all[0].MakeOnce(t.Context(), "k", func(string) {}, none, func(context.Context) error { close(began); <-end; return fails })
	}()
	<-began
	eventually(t, "the claim is seen", func() bool { _, ok := all[1].mesh.Catalogues().Holder("k"); return ok })
	waits := make(chan string, 8)
	done := make(chan error, 1)
	go func() {
		done <- all[1].MakeOnce(t.Context(), "k", func(s string) { waits <- s }, none, func(context.Context) error { return nil })
	}()
	<-waits
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestContextsAreAnnounced(t *testing.T) {
	all := newTeam(t, false)
	all[0].contexts.Store(&[]Context{{Kind: catalogue.Box, ID: "abc", Name: "web\x1b[31m", State: "running", Branch: "main"}})
	eventually(t, "the box is seen", func() bool {
		list := all[1].TeamContexts()
		return len(list) == 1 && list[0].Name == "web[31m" && list[0].Announcer == all[0].mesh.Self() && list[0].State == "running"
	})
}

// A member writes what it likes into its catalogue; people see text.
func TestContextsAreSanitized(t *testing.T) {
	all := newTeam(t, false)
	eventually(t, "the record is seen", func() bool {
		// Each time, since that machine announces its own tasks in place of it.
		err := all[0].mesh.Catalogues().Update(func(e *catalogue.Edit) {
			e.Put(catalogue.Record{Kind: catalogue.Task, Key: "x", Text: `{"name":"a\u001b]52;c;Zg==\u0007b\u202e","state":"\u001b[2J"}`})
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all[1].TeamContexts() {
			if c.ID == "x" {
				if c.Name != "a]52;c;Zg==b" || c.State != "[2J" {
					t.Errorf("%q, %q", c.Name, c.State)
				}
				return true
			}
		}
		return false
	})
}

// Nobody would use what it makes, so nobody waits for it.
func TestNonBuilderClaimsNothing(t *testing.T) {
	all := newTeam(t, false)
	none := func(context.Context) error { return agentbox.Errorf(agentbox.NotFound, "nobody") }
	err := all[1].MakeOnce(t.Context(), "k", func(string) {}, none, func(context.Context) error {
		if _, records, _ := all[1].mesh.Catalogues().Records(all[1].mesh.Self()); len(records) != 0 {
			t.Errorf("%+v", records)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := all[1].mesh.Catalogues().Update(func(e *catalogue.Edit) { e.Put(catalogue.Record{Kind: catalogue.Claim, Key: "k", TTL: 600}) }); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the claim is seen", func() bool { return all[0].knows(catalogue.Claim, "k") })
	made := false
	err = all[0].MakeOnce(t.Context(), "k", func(s string) { t.Error(s) }, none, func(context.Context) error { made = true; return nil })
	if err != nil || !made {
		t.Errorf("%v, made %v", err, made)
	}
}

// What setup made while files of this host were at hand is this host's.
func TestPrivateResultsAreNotOffered(t *testing.T) {
	all := newTeam(t, false)
	file := filepath.Join(t.TempDir(), "part.tar")
	if err := os.WriteFile(file, make([]byte, 10240), 0o600); err != nil {
		t.Fatal(err)
	}
	var keys []agentbox.Digest
	for _, private := range []bool{true, false} {
		in := caches.Ingredients{Project: "p", Setup: []string{"a\nb"}, Env: map[string]agentbox.Digest{"X": {byte(len(keys))}}, Lockfiles: map[string]agentbox.Digest{}}
		made := caches.Result{Key: in.Key(), Ingredients: in, Parts: []caches.Part{caches.Dirs}, Private: private}
		if err := all[0].SetupResults.Publish(t.Context(), made, map[caches.Part]string{caches.Dirs: file}); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, in.Key())
	}
	eventually(t, "the other result is offered", func() bool { return all[1].knows(catalogue.Setup, keys[1].Hex()) })
	if all[1].knows(catalogue.Setup, keys[0].Hex()) {
		t.Error("it is offered")
	}
}

// A machine leaves while it is asked things all the time.
func TestLeaveDuringCalls(t *testing.T) {
	all := newTeam(t, true)
	m := all[1]
	m.contexts.Store(&[]Context{{Kind: catalogue.Box, ID: "abc", Name: "web", State: "running"}})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = m.offer(ctx)
				_ = m.announceContexts(ctx)
				m.TeamContexts()
				_, _ = m.Image(ctx, agentbox.Digest{1}, "")
				none := func(context.Context) error { return agentbox.Errorf(agentbox.NotFound, "nobody") }
				_ = m.MakeOnce(ctx, "k", func(string) {}, none, func(context.Context) error { return nil })
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	if err := m.mesh.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	wg.Wait()
	if m.TeamContexts() != nil || m.Peers() != nil {
		t.Error("it is still in the team")
	}
}

func TestImageWithoutHoldersIsLost(t *testing.T) {
	all := newTeam(t, false)
	has, needs := all[0], all[1]
	img := has.build(t, 7)
	eventually(t, "the image is offered", func() bool { return needs.knows(catalogue.Image, img.Digest.Hex()) })
	got, err := needs.Image(t.Context(), img.Digest, "")
	if err != nil {
		t.Fatal(err)
	}
	if needs.CheckAvailable(t.Context(), got) != nil || needs.CheckAvailable(t.Context(), img) != nil {
		t.Error("it is lost while its holder is here")
	}
	if err := has.mesh.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is lost", func() bool { return needs.CheckAvailable(t.Context(), got) != nil })
	if needs.CheckAvailable(t.Context(), img) != nil {
		t.Error("an image that is all here is lost")
	}
}
