package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"agentbox/agentbox"
	"agentbox/vmm/image/rootfs"
)

var none agentbox.Digest

func newStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testLayer makes a layer of name, content pairs; a name with a slash at its end is a directory.
func testLayer(t *testing.T, pairs ...string) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		h := &tar.Header{Name: pairs[i], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(pairs[i+1]))}
		if strings.HasSuffix(h.Name, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, pairs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// testImage makes an image of two layers, of which the second removes a file of the first.
func testImage(t *testing.T, mark string) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image,
		testLayer(t, "etc/", "", "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", "etc/group", "root:x:0:\n", "bin/sh", "#!", "gone", "x"),
		testLayer(t, ".wh.gone", "", "mark", mark))
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Env, config.Config.User = []string{"PATH=/bin"}, "0:0"
	config.Config.Labels = map[string]string{metadataLabel: `[{"remoteUser":"root"}]`}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}

// content reads a file of an image.
func content(t *testing.T, img Image, name string) string {
	t.Helper()
	f, err := os.Open(img.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree, err := rootfs.Read(t.Context(), f, rootfs.DefaultLimits, epoch)
	if err != nil {
		t.Fatal(err)
	}
	ino := tree.Lookup(name, false)
	if ino == nil {
		return "(none)"
	}
	text, err := ino.ReadAll(1 << 20)
	if err != nil {
		return fmt.Sprintf("(%o)", ino.Mode)
	}
	return string(text)
}

func checkTestImage(t *testing.T, img Image, mark string) {
	t.Helper()
	for name, want := range map[string]string{
		"mark": mark, "gone": "(none)", "workspace": "(40755)", "home/agent": "(40755)", "tmp": "(41777)",
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n",
	} {
		if got := content(t, img, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if d, err := agentbox.DigestFile(img.Path); err != nil || d != img.Digest {
		t.Errorf("the file has the digest %s, not %s (%v)", d, img.Digest, err)
	}
}

// testLayout writes an image as a layout and gives its directory.
func testLayout(t *testing.T, img v1.Image) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = p.AppendImage(img, layout.WithAnnotations(map[string]string{refName: "v1"}))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func wantCode(t *testing.T, err error, code agentbox.Code, say string) {
	t.Helper()
	if agentbox.CodeOf(err) != code || !strings.Contains(err.Error(), say) {
		t.Errorf("got %s: %v; want %s: …%s…", agentbox.CodeOf(err), err, code, say)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has more than one line: %q", err.Error())
	}
}
