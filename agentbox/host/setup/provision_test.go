package setup

import (
	"context"
	"io"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
	"agentbox/agentbox/config"
	"agentbox/vmm/image"
)

// fakeResults has results of one key: the first that was not forgotten is found. What is written of
// a result is what each of its parts has; "damaged" cannot be read.
type fakeResults struct {
	Results
	key   agentbox.Digest
	parts []string // of result i+1
}

func (f *fakeResults) newest() (caches.Result, error) {
	for i, text := range f.parts {
		made := caches.Result{Key: f.key, Manifest: agentbox.Digest{byte(i + 1)}, Parts: []caches.Part{caches.Dirs, caches.Workspace}}
		switch text {
		case "forgotten":
			continue
		case "damaged":
			return caches.Result{Manifest: made.Manifest}, agentbox.Errorf(agentbox.Corrupt, "a bit is wrong")
		}
		return made, nil
	}
	return caches.Result{}, agentbox.Errorf(agentbox.NotFound, "nobody has published it")
}

func (f *fakeResults) Find(context.Context, agentbox.Digest) (caches.Result, error) {
	return f.newest()
}
func (f *fakeResults) Nearest(context.Context, agentbox.Digest) (caches.Result, error) {
	return f.newest()
}

func (f *fakeResults) Forget(_ context.Context, result agentbox.Digest) error {
	f.parts[result[0]-1] = "forgotten"
	return nil
}

func (f *fakeResults) Open(_ context.Context, result agentbox.Digest, _ caches.Part) (io.ReadCloser, error) {
	text := f.parts[result[0]-1]
	if strings.HasPrefix(text, "damaged") {
		return nil, agentbox.Errorf(agentbox.Corrupt, "a bit is wrong")
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// fakeImages makes images: the name of one is what its layers say.
type fakeImages struct{ Images }

func (fakeImages) Derive(_ context.Context, base image.Image, d image.Derivation, _ agentbox.Progress) (image.Image, error) {
	for _, layer := range d.Layers {
		r, err := layer()
		if err != nil {
			return base, err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return base, err
		}
		base.Name += string(b)
	}
	return base, nil
}

// request is one whose clean box cannot be had, as if setup had failed in it.
func request(t *testing.T) Request {
	t.Helper()
	return Request{Config: &config.Config{Root: t.TempDir()}, User: "agent", Clean: func(context.Context, image.Image, agentbox.Progress) (CleanBox, error) {
		return CleanBox{}, agentbox.Errorf(agentbox.Conflict, "setup failed")
	}}
}

// What is damaged is dropped with a line, and whatever else there is counts.
func TestProvisionDropsDamagedResult(t *testing.T) {
	for name, c := range map[string]struct {
		parts []string
		image string
		lines int
	}{
		"found":         {[]string{"damaged", "good"}, "good", 1},
		"read":          {[]string{"damaged when it is read", "good"}, "good", 1},
		"there is none": {[]string{"damaged"}, "", 1},
		"both":          {[]string{"damaged", "damaged", "good"}, "good", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, output := New(Config{Results: &fakeResults{parts: c.parts}, Images: fakeImages{}}), 0
			got, err := s.Provision(t.Context(), request(t), agentbox.Box{}, image.Image{}, func(e agentbox.Event) {
				if strings.Contains(e.Detail, "is damaged and will be made again") {
					output++
				}
			})
			if err != nil || got.Image.Name != c.image || output != c.lines {
				t.Errorf("%q, %d lines, %v", got.Image.Name, output, err)
			}
		})
	}
}

// The workspace of a box gets its part of the result that the image is of, not of the one that has
// taken its place since.
func TestOverlayMatchesImage(t *testing.T) {
	results := &fakeResults{parts: []string{"first", "second"}}
	s := New(Config{Results: results, Images: fakeImages{}})
	got, err := s.Provision(t.Context(), request(t), agentbox.Box{}, image.Image{}, nil)
	if err != nil || got.Image.Name != "first" {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, place := range []string{"forgotten", "damaged"} {
		text := ""
		read := func(r io.Reader) error {
			b, err := io.ReadAll(r)
			text += string(b)
			return err
		}
		if err := s.Overlay(t.Context(), got.Made, read); err != nil || text != "first" {
			t.Errorf("%q, %v", text, err)
		}
		results.parts = []string{"damaged", place} // that it is damaged is no reason to take the other
		text = ""
		if err := s.Overlay(t.Context(), got.Made, read); text != "" || s.Drop(t.Context(), err, nil) != nil || err == nil {
			t.Errorf("%q, %v", text, err)
		}
		results.parts = []string{"first", place}
	}
}
