package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// archive is a layer with one file.
func archive(t *testing.T, name, text string) func() (io.ReadCloser, error) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Uid: userID, Gid: userID, Size: int64(len(text))})
	if _, werr := io.WriteString(w, text); errors.Join(err, werr, w.Close()) != nil {
		t.Fatal(err, werr)
	}
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
}

func TestDerive(t *testing.T) {
	s := newStore(t)
	base, _ := ensureLayout(t, s, "one")
	key := agentbox.Digest{1}
	d := Derivation{Key: key, Name: "with setup", Layers: []func() (io.ReadCloser, error){
		archive(t, "home/agent/cache", "first"), archive(t, "home/agent/cache", "second"),
	}}
	img, err := s.Derive(t.Context(), base, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkTestImage(t, img, "one")
	if got := content(t, img, "home/agent/cache"); got != "second" {
		t.Errorf("the last layer does not win: %q", got)
	}
	if img.Digest == base.Digest || img.Base != base.Digest || img.Name != base.Name+" with setup" {
		t.Errorf("derived image: %+v", img)
	}
	d.Layers = []func() (io.ReadCloser, error){func() (io.ReadCloser, error) { return nil, errors.New("read again") }}
	if again, err := s.Derive(t.Context(), base, d, nil); err != nil || again.Digest != img.Digest {
		t.Errorf("made twice: %v", err)
	}
	d.Key = agentbox.Digest{2}
	if _, err := s.Derive(t.Context(), base, d, nil); err == nil {
		t.Error("a layer that cannot be read gave an image")
	}
}

// Packages that setup installs have left their keys behind: boxes make them.
func TestDerivedImageHasNoKeys(t *testing.T) {
	s := newStore(t)
	base, _ := ensureLayout(t, s, "one")
	img, err := s.Derive(t.Context(), base, Derivation{Key: agentbox.Digest{1}, Layers: []func() (io.ReadCloser, error){
		archive(t, "usr/sbin/sshd", "x"), archive(t, "usr/bin/ssh-keygen", "x"), archive(t, "etc/ssh/ssh_host_rsa_key", "which somebody included"),
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, img, "usr/lib/agentbox/first-start/10-ssh"); !strings.Contains(got, "ssh-keygen") {
		t.Errorf("no box makes the keys: %q", got)
	}
	if got := content(t, img, "etc/ssh/ssh_host_rsa_key"); got != "which somebody included" {
		t.Errorf("a file that somebody wanted there is %q", got)
	}
}

// Other images keep their trees, each in its directory, and what they say of their programs.
func TestDeriveWithRoots(t *testing.T) {
	s := newStore(t)
	base, _ := ensureLayout(t, s, "one")
	other, _ := ensureLayout(t, s, "two")
	roots := map[string]Image{"/srv/two": other, "/srv/again": other}
	img, err := s.Derive(t.Context(), base, Derivation{Key: agentbox.Digest{1}, Roots: roots}, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkTestImage(t, img, "one")
	for _, at := range []string{"srv/two/", "srv/again/"} {
		if got, want := content(t, img, at+"etc/passwd"), content(t, other, "etc/passwd"); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
	if len(img.Roots) != 2 || img.Roots[1].At != "/srv/two" || img.Roots[1].Digest != other.Digest || img.Roots[1].Program == nil {
		t.Errorf("%+v", img.Roots)
	}
	lazy := other
	lazy.Path, lazy.Lazy = "/nowhere", &Lazy{}
	if _, err := s.Derive(t.Context(), base, Derivation{Key: agentbox.Digest{2}, Roots: map[string]Image{"/a": lazy}}, nil); !errors.As(err, new(*NotHereError)) {
		t.Errorf("an image that is not here: %v", err)
	}
	s.limits.Inodes = 30
	if _, err := s.Derive(t.Context(), base, Derivation{Key: agentbox.Digest{3}, Roots: roots}, nil); err == nil {
		t.Error("more files than an image may have")
	}
}
