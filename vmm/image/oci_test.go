package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"agentbox/agentbox"
)

// testRegistry serves a real registry on loopback; wrap may spoil its answers. It gives the
// registry's name.
func testRegistry(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func push(t *testing.T, ref string, img v1.Image) {
	t.Helper()
	r, err := name.ParseReference(ref)
	if err == nil {
		err = remote.Write(r, img)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestSourcesGiveSameImage(t *testing.T) {
	img := testImage(t, "one")
	ref := testRegistry(t, nil) + "/team/app:v1"
	push(t, ref, img)
	archive := filepath.Join(t.TempDir(), "saved.tar")
	tag, err := name.NewTag(ref)
	if err == nil {
		err = tarball.WriteToFile(archive, tag, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := testLayout(t, img)
	s := newStore(t)
	var first agentbox.Digest
	for _, source := range []string{ref, "docker-archive:" + archive, "docker-archive:" + archive + ":" + ref, "oci:" + dir, "oci:" + dir + ":v1"} {
		got, err := s.Ensure(t.Context(), Recipe{Source: source}, none, nil)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		checkTestImage(t, got, "one")
		if first == none {
			first = got.Digest
		}
		if got.Digest != first {
			t.Errorf("%s gave %s, another source of the same image %s", source, got.Digest.Short(), first.Short())
		}
		if got.User != "root" || got.Metadata != `[{"remoteUser":"root"}]` || !slices.Equal(got.Accounts, []string{"root"}) {
			t.Errorf("user %q of %q, metadata %s", got.User, got.Accounts, got.Metadata)
		}
		if len(got.Env) != 1 || got.Env[0] != "PATH=/bin" {
			t.Errorf("%s: environment %q", source, got.Env)
		}
	}
}

func TestPinnedManifest(t *testing.T) {
	ref := testRegistry(t, nil) + "/app:latest"
	push(t, ref, testImage(t, "old"))
	path := filepath.Join(t.TempDir(), LockFile)
	s := newStore(t)
	old, err := s.EnsureLocked(t.Context(), path, Recipe{Source: ref}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	push(t, ref, testImage(t, "new"))
	// Another machine: nothing local, the same lock file. The tag has moved, the pin has not.
	other := newStore(t)
	got, err := other.EnsureLocked(t.Context(), path, Recipe{Source: ref}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkTestImage(t, got, "old")
	if got.Digest != old.Digest {
		t.Errorf("the other machine made %s, not %s", got.Digest, old.Digest)
	}
	updated, err := other.EnsureLocked(t.Context(), path, Recipe{Source: ref}, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkTestImage(t, updated, "new")
	if again, err := other.EnsureLocked(t.Context(), path, Recipe{Source: ref}, false, nil); err != nil || again.Digest != updated.Digest {
		t.Errorf("after the update: %s, %v", again.Digest, err)
	}
}

func TestOtherDigestThanPinned(t *testing.T) {
	ref := testRegistry(t, nil) + "/app:latest"
	push(t, ref, testImage(t, "x"))
	pin := agentbox.Digest{1, 2, 3}
	_, err := newStore(t).Ensure(t.Context(), Recipe{Source: ref}, pin, nil)
	wantCode(t, err, agentbox.Conflict, pin.Short())
	if hint := agentbox.AsError(err).Hint; !strings.Contains(hint, "image build --update") {
		t.Errorf("hint %q", hint)
	}
}

func TestPlatforms(t *testing.T) {
	ref := testRegistry(t, nil) + "/multi:v1"
	index := v1.ImageIndex(empty.Index)
	for _, arch := range []string{"amd64", "arm64"} {
		img := testImage(t, arch)
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		config = config.DeepCopy()
		config.Architecture = arch
		if img, err = mutate.ConfigFile(img, config); err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	r, err := name.ParseReference(ref)
	if err == nil {
		err = remote.WriteIndex(r, index)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	for _, arch := range []string{"arm64", "amd64"} {
		img, err := s.Ensure(t.Context(), Recipe{Source: ref, Platform: "linux/" + arch}, none, nil)
		if err != nil {
			t.Fatal(err)
		}
		checkTestImage(t, img, arch)
	}
	_, err = s.Ensure(t.Context(), Recipe{Source: ref, Platform: "linux/riscv64"}, none, nil)
	wantCode(t, err, agentbox.NotFound, "platform")
}

func TestWrongArchitecture(t *testing.T) {
	ref := testRegistry(t, nil) + "/app:v1"
	push(t, ref, testImage(t, "x"))
	_, err := newStore(t).Ensure(t.Context(), Recipe{Source: ref, Platform: "linux/s390x"}, none, nil)
	wantCode(t, err, agentbox.Invalid, "s390x")
}

func TestRegistryErrors(t *testing.T) {
	status := func(code int) func(http.Handler) http.Handler {
		return func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		}
	}
	for name, c := range map[string]struct {
		host string
		code agentbox.Code
		say  string
	}{
		"no such image": {testRegistry(t, nil), agentbox.NotFound, "no image"},
		"unauthorized":  {testRegistry(t, status(http.StatusUnauthorized)), agentbox.Missing, "401"},
		"forbidden":     {testRegistry(t, status(http.StatusForbidden)), agentbox.Missing, "403"},
		"nobody there":  {"127.0.0.1:1", agentbox.Unavailable, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newStore(t).Ensure(t.Context(), Recipe{Source: c.host + "/app:v1"}, none, nil)
			wantCode(t, err, c.code, c.say)
			if agentbox.AsError(err).Hint == "" {
				t.Error("no hint")
			}
		})
	}
}

// spoil makes the first answers with a layer's bytes wrong.
func spoil(times int32, change func([]byte) []byte) func(http.Handler) http.Handler {
	var done atomic.Int32
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
				next.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			body := rec.Body.Bytes()
			isLayer := len(body) > 2 && body[0] == 0x1f && body[1] == 0x8b
			if isLayer && done.Add(1) <= times {
				body = change(body)
			}
			maps.Copy(w.Header(), rec.Header())
			w.WriteHeader(rec.Code)
			_, _ = w.Write(body) // cut answers fail here, as they should
		})
	}
}

func flip(b []byte) []byte {
	b[len(b)/2] ^= 1
	return b
}

func TestDownloadIsRetried(t *testing.T) {
	ref := testRegistry(t, spoil(2, func(b []byte) []byte { return b[:len(b)/2] })) + "/app:v1"
	push(t, ref, testImage(t, "x"))
	var last agentbox.Event
	img, err := newStore(t).Ensure(t.Context(), Recipe{Source: ref}, none, func(e agentbox.Event) {
		if strings.HasPrefix(e.Detail, "fetch ") {
			last = e
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	checkTestImage(t, img, "x")
	if last.Total == 0 || last.Done != last.Total {
		t.Errorf("the last progress was %+v", last)
	}
}

func TestLayerDigestMismatch(t *testing.T) {
	ref := testRegistry(t, spoil(1000, flip)) + "/app:v1"
	push(t, ref, testImage(t, "x"))
	s := newStore(t)
	_, err := s.Ensure(t.Context(), Recipe{Source: ref}, none, nil)
	wantCode(t, err, agentbox.Corrupt, "")
	list, err := s.List()
	if err != nil || len(list) != 0 {
		t.Errorf("the store has %d images (%v)", len(list), err)
	}
	left, err := os.ReadDir(filepath.Join(s.dir, tmpDir))
	if err != nil || len(left) != 0 {
		t.Errorf("the build left %v (%v)", left, err)
	}
}

func TestDamagedLayoutAndArchive(t *testing.T) {
	img := testImage(t, "x")
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[1].Digest()
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string]func(path string) error{
		"flipped": func(p string) error {
			b, err := os.ReadFile(p)
			if err == nil {
				err = os.WriteFile(p, flip(b), 0o600)
			}
			return err
		},
		"cut":    func(p string) error { return os.Truncate(p, 30) },
		"absent": os.Remove,
	}
	for what, spoilFile := range damage {
		dir := testLayout(t, img)
		if err := spoilFile(filepath.Join(dir, "blobs", "sha256", digest.Hex)); err != nil {
			t.Fatal(err)
		}
		_, err := newStore(t).Ensure(t.Context(), Recipe{Source: "oci:" + dir}, none, nil)
		if code := agentbox.CodeOf(err); code != agentbox.Corrupt && what != "absent" || err == nil {
			t.Errorf("layout with a layer %s: %s: %v", what, code, err)
		}
	}
	archive := filepath.Join(t.TempDir(), "saved.tar")
	if err := os.WriteFile(archive, []byte(strings.Repeat("no tar at all ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = newStore(t).Ensure(t.Context(), Recipe{Source: "docker-archive:" + archive}, none, nil)
	wantCode(t, err, agentbox.Corrupt, "")
	_, err = newStore(t).Ensure(t.Context(), Recipe{Source: "docker-archive:/no/where.tar"}, none, nil)
	wantCode(t, err, agentbox.NotFound, "/no/where.tar")
	_, err = newStore(t).Ensure(t.Context(), Recipe{Source: "oci:/no/where"}, none, nil)
	wantCode(t, err, agentbox.NotFound, "/no/where")
	_, err = newStore(t).Ensure(t.Context(), Recipe{Source: "oci:" + testLayout(t, img) + ":v2"}, none, nil)
	wantCode(t, err, agentbox.NotFound, "no image")
}

func TestBadRecipes(t *testing.T) {
	for source, packages := range map[string][]string{
		"apt:Book Worm": nil, "oci:relative": nil, "docker-archive:relative.tar": nil, "UPPER/case": nil, "a b": nil,
		"apt:bookworm": {"--option"}, "registry.example/app": {"git"},
	} {
		_, err := newStore(t).Ensure(t.Context(), Recipe{Source: source, Packages: packages}, none, nil)
		wantCode(t, err, agentbox.Invalid, "")
	}
}

func ExampleImage_Pin() {
	fmt.Println(Image{Digest: agentbox.Digest{1}}.Pin().Short(), Image{Digest: agentbox.Digest{1}, Base: agentbox.Digest{2}}.Pin().Short())
	// Output: 010000000000 020000000000
}

// A layer says itself how large it is. What cannot be an honest size is refused before anything is
// written: the library takes -1 for "unknown" and then reads without a bound.
func TestImpossibleLayerSizes(t *testing.T) {
	for _, size := range []int64{-1, -5, 1 << 62} {
		b, err := newStore(t).newBuild(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		l := &sizedLayer{Layer: testLayer(t, "a", "x"), size: size}
		ctx, cancel := context.WithCancel(t.Context())
		d, err := b.download(ctx, "registry.test/x", []v1.Layer{l, l})
		if err == nil {
			_, err = d.open(0)
			cancel()
			d.wait()
		}
		cancel()
		if l.read.Load() || err == nil {
			t.Errorf("a layer of %d bytes was downloaded (%v)", size, err)
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}
}

// sizedLayer says that it has a size, and remembers whether somebody read it.
type sizedLayer struct {
	v1.Layer
	size int64
	read atomic.Bool
}

func (s *sizedLayer) Size() (int64, error) { return s.size, nil }

func (s *sizedLayer) Compressed() (io.ReadCloser, error) {
	s.read.Store(true)
	return s.Layer.Compressed()
}

// Whoever interrupts a build does not wait for what follows an archive's end.
func TestCancelledBuildStopsReading(t *testing.T) {
	b, err := newStore(t).newBuild(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	rc, err := testLayer(t, "a", "x").Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tail := &endless{cancel: cancel}
	open := func(int) (io.ReadCloser, error) { return io.NopCloser(io.MultiReader(rc, tail)), nil }
	if err := b.layer(ctx, v1.Hash{}, open, 0); !errors.Is(err, context.Canceled) || tail.reads > 2 {
		t.Errorf("%d reads after the end of the build: %v", tail.reads, err)
	}
}

// endless gives zeros, as good as forever, and cancels at the first read.
type endless struct {
	cancel context.CancelFunc
	reads  int
}

func (e *endless) Read(p []byte) (int, error) {
	e.cancel()
	if e.reads++; e.reads > 1<<10 {
		return 0, io.EOF
	}
	clear(p)
	return len(p), nil
}

// Images of the same files are one image in the store, and each still says what its source says.
func TestSameFilesOfTwoImages(t *testing.T) {
	s := newStore(t)
	first, err := mutate.Config(testImage(t, "one"), v1.Config{Env: []string{"A=1"}, Cmd: []string{"one"}})
	if err != nil {
		t.Fatal(err)
	}
	second, err := mutate.Config(testImage(t, "one"), v1.Config{Env: []string{"A=2"}, Cmd: []string{"two"}})
	if err != nil {
		t.Fatal(err)
	}
	host := testRegistry(t, nil)
	push(t, host+"/first", first)
	push(t, host+"/second", second)
	for range 2 { // made, then found
		for name, want := range map[string][2]string{"first": {"A=1", "one"}, "second": {"A=2", "two"}} {
			r := Recipe{Source: host + "/" + name, Private: true}
			img, err := s.Ensure(t.Context(), r, none, nil)
			if err != nil || img.Env[0] != want[0] || img.Program.Command[0] != want[1] || img.Source != r.Source {
				t.Errorf("%s: %+v, %v", name, img, err)
			}
			derived, err := s.Derive(t.Context(), img, Derivation{Key: agentbox.Digest{1}}, nil)
			if err != nil || derived.Env[0] != want[0] {
				t.Errorf("derived of %s: %+v, %v", name, derived, err)
			}
			if found, ok := s.FindBase(r); !ok || found.Env[0] != want[0] {
				t.Errorf("%s: found %+v, %v", name, found, ok)
			}
		}
	}
	list, err := s.List()
	if err != nil || len(list) != 1 {
		t.Errorf("%d images, %v", len(list), err)
	}
}
