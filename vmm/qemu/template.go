package qemu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/memfile"
	"agentbox/vmm/statedir"
)

// templateBase is what a machine keeps of its template, to find out later what it changed. It never
// changes and outlives the opened template.
type templateBase struct {
	ID       agentbox.Digest // of the template's manifest
	Manifest manifest
	Memory   *pageIndex // the pages of the template that are not zero
}

// template is an opened template. Its bytes were verified while they were read into sealed memory
// files, so machines map the very bytes that were verified, and no VMM can change them.
type template struct {
	templateBase

	// The guest's memory and the runtime layer, both sparse.
	memory, runtime *os.File
	devices         *os.File // QEMU's device state
	// For InheritTemplate: the manifest's line, and the memory's index as it is on disk.
	about *os.File
}

// Files implements vmm.Template. The order is that which InheritTemplate expects.
func (t *template) Files() []*os.File { return []*os.File{t.memory, t.devices, t.runtime, t.about} }

// Close implements vmm.Template. Machines that were started go on: they have the files mapped.
func (t *template) Close() error { return statedir.Close(t.Files()...) }

// OpenTemplate implements vmm.Templater. It reads and verifies everything, which takes 60 to 90
// ms for 105 MB: once for each template and daemon, since supervisors inherit the result.
func (d *Driver) OpenTemplate(ctx context.Context, dir string) (vmm.Template, error) {
	man, id, err := statedir.ReadManifest[manifest](dir)
	if err != nil {
		return nil, err
	}
	t := &template{templateBase: templateBase{ID: id, Manifest: man}}
	if err := t.load(ctx, dir); err != nil {
		t.Close()
		return nil, statedir.HostError(err)
	}
	return t, nil
}

// load reads and verifies everything but the manifest into sealed memory files. After an error some
// are open; the caller closes them.
func (t *template) load(ctx context.Context, dir string) error {
	memory, index, err := readIndex(dir, memoryFile, t.Manifest.MemoryIndex, t.Manifest.Memory)
	if err != nil {
		return err
	}
	runtime, _, err := readIndex(dir, templateDiskFile, t.Manifest.DiskIndex, t.Manifest.Disk)
	if err != nil {
		return err
	}
	state, err := readDigested(dir, devicesFile, t.Manifest.Devices)
	if err != nil {
		return err
	}
	t.Memory = memory
	if t.devices, err = memfile.Sealed("agentbox-devices", bytes.NewReader(state)); err != nil {
		return err
	}
	if t.memory, err = sealedPages(ctx, dir, memoryFile, memoryName, memory); err != nil {
		return err
	}
	if t.runtime, err = sealedPages(ctx, dir, templateDiskFile, "agentbox-runtime", runtime); err != nil {
		return err
	}
	about, _, err := statedir.Seal(t.Manifest)
	if err != nil {
		return err
	}
	t.about, err = memfile.Sealed("agentbox-template", bytes.NewReader(append(about, index...)))
	return err
}

// sealedPages verifies a page set into a sealed memory file, with the pages at their offsets.
func sealedPages(ctx context.Context, dir, set, name string, x *pageIndex) (*os.File, error) {
	f, err := memfile.New(name, x.Space)
	if err != nil {
		return nil, err
	}
	if err = loadPages(ctx, dir, set, x, fileSpace{f}); err == nil {
		err = memfile.Seal(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// loadPages verifies a page set into sink. Pages that do not match make the directory corrupt.
func loadPages(ctx context.Context, dir, name string, x *pageIndex, sink pageSink) error {
	f, err := statedir.Open(dir, name+pagesSuffix, x.Length)
	if err != nil {
		return err
	}
	defer f.Close()
	err = readPages(ctx, f, x, sink)
	if errors.Is(err, errPages) {
		return statedir.Corrupt(dir, "%s: %w", name+pagesSuffix, err)
	}
	return err
}

// InheritTemplate implements vmm.Templater. It trusts sealed files: they come from a process of
// the same user that verified them.
func (d *Driver) InheritTemplate(files []*os.File) (vmm.Template, error) {
	if err := memfile.Check(files, 4); err != nil {
		return nil, err
	}
	t := &template{memory: files[0], devices: files[1], runtime: files[2], about: files[3]}
	if err := t.inherit(); err != nil {
		return nil, fmt.Errorf("inherit a template: %w", err)
	}
	return t, nil
}

// inherit decodes the file about. It checks manifest and index again, but no pages.
func (t *template) inherit() error {
	about, err := io.ReadAll(io.NewSectionReader(t.about, 0, 1<<30))
	if err != nil {
		return err
	}
	head, index, _ := bytes.Cut(about, []byte("\n"))
	if t.Manifest, t.ID, err = statedir.Unseal[manifest](head); err != nil {
		return err
	}
	if agentbox.Digest(sha256.Sum256(index)) != t.Manifest.MemoryIndex {
		return errors.New("its index does not match its manifest")
	}
	t.Memory, err = decodeIndex(index)
	return err
}
