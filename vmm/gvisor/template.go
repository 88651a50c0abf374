package gvisor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/memfile"
	"agentbox/vmm/statedir"
)

// template is an open template. Its verified bytes are in sealed memory files, so machines are
// restored from exactly these bytes.
type template struct {
	ID       agentbox.Digest // of the manifest
	Manifest manifest

	images []*os.File // in the order of imageNames
	about  *os.File   // the manifest as it is on disk
}

// Files implements vmm.Template.
func (t *template) Files() []*os.File { return append(slices.Clip(t.images), t.about) }

// Close implements vmm.Template. Running machines do not need the template any more.
func (t *template) Close() error { return statedir.Close(t.Files()...) }

// OpenTemplate implements vmm.Snapshotter. It verifies the copy in memory, so it notices a file
// that changes while it is read.
func (d *Driver) OpenTemplate(ctx context.Context, dir string) (vmm.Template, error) {
	man, id, err := statedir.ReadManifest[manifest](dir)
	if err != nil {
		return nil, err
	}
	files, err := man.openImages(dir)
	if err != nil {
		return nil, err
	}
	defer statedir.Close(files...)
	t := &template{ID: id, Manifest: man}
	if err := t.load(ctx, dir, files); err != nil {
		t.Close()
		return nil, statedir.HostError(err)
	}
	return t, nil
}

// load copies the images to memory and verifies the copies. After an error the caller closes t.
func (t *template) load(ctx context.Context, dir string, files []*os.File) error {
	for i, f := range files {
		m, err := memfile.Sealed("agentbox-"+imageNames[i], f)
		if err != nil {
			return err
		}
		t.images = append(t.images, m)
	}
	if err := t.Manifest.verify(ctx, dir, t.images); err != nil {
		return err
	}
	about, _, err := statedir.Seal(t.Manifest)
	if err != nil {
		return err
	}
	t.about, err = memfile.Sealed("agentbox-template", bytes.NewReader(about))
	return err
}

// InheritTemplate implements vmm.Snapshotter. A process of the same user has verified and sealed
// the files.
func (d *Driver) InheritTemplate(files []*os.File) (vmm.Template, error) {
	last := len(imageNames)
	if err := memfile.Check(files, last+1); err != nil {
		return nil, err
	}
	about, err := io.ReadAll(io.NewSectionReader(files[last], 0, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("inherit a template: %w", err)
	}
	t := &template{images: files[:last], about: files[last]}
	if t.Manifest, t.ID, err = statedir.Unseal[manifest](about); err != nil {
		return nil, fmt.Errorf("inherit a template: %w", err)
	}
	return t, nil
}
