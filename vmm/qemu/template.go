package qemu

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/memfile"
	"agentbox/vmm/statedir"
)

// templateBase is what a machine keeps of its template: enough to tell later what it changed. It
// never changes and outlives the opened template.
type templateBase struct {
	ID       agentbox.Digest // of the template's manifest
	Manifest manifest
	Memory   *pageIndex // the pages of the template that are not zero
}

// template is an opened template. Its bytes were verified while they were read into memory files
// that nobody can change any more, not even a VMM that a guest has taken over: machines map the
// very bytes that were verified.
type template struct {
	templateBase
	disk *pageIndex // the blocks of the runtime layer that are not zero

	memory  *os.File // the guest's memory, sparse
	devices *os.File // QEMU's device state
	// runtime.pages, packed as on disk: it is read, not mapped, so it needs no sparse form.
	blocks *os.File
	about  *os.File // inheritance, as JSON
}

// inheritance is what another process needs besides the memory files. The indexes are in it as they
// stand in the files, so that they can be checked against the digests of the manifest again.
type inheritance struct {
	Manifest    []byte `json:"manifest"`
	MemoryIndex []byte `json:"memory_index"`
	DiskIndex   []byte `json:"disk_index"`
}

// Files implements vmm.Template. The order is that which InheritTemplate expects.
func (t *template) Files() []*os.File { return []*os.File{t.memory, t.devices, t.blocks, t.about} }

// Close implements vmm.Template. Machines that were started go on: they have the files mapped.
func (t *template) Close() error { return statedir.Close(t.Files()...) }

// OpenTemplate implements vmm.Snapshotter. It reads everything once, verifying it, which takes 60
// to 90 ms for 105 MB: once for each template and daemon, since supervisors inherit the result.
func (d *Driver) OpenTemplate(ctx context.Context, dir string) (vmm.Template, error) {
	t, about, err := readTemplateHead(dir)
	if err != nil {
		return nil, err
	}
	if err := t.load(ctx, dir, about); err != nil {
		t.Close()
		return nil, statedir.HostError(err)
	}
	return t, nil
}

// readTemplateHead reads everything but the pages. The template has no files yet.
func readTemplateHead(dir string) (*template, inheritance, error) {
	var about inheritance
	m, id, err := statedir.ReadManifest[manifest](dir)
	if err != nil {
		return nil, about, err
	}
	t := &template{templateBase: templateBase{ID: id, Manifest: m}}
	if about.Manifest, _, err = statedir.Seal(m); err != nil {
		return nil, about, err
	}
	if t.Memory, about.MemoryIndex, err = readIndex(dir, memoryFile, m.MemoryIndex, m.Memory); err != nil {
		return nil, about, err
	}
	t.disk, about.DiskIndex, err = readIndex(dir, templateDiskFile, m.DiskIndex, m.Disk)
	return t, about, err
}

// load reads the pages, verifying them, into sealed memory files. On an error some of the files are
// open; the caller closes them. The files are sealed after they were filled and before anybody else
// sees them.
func (t *template) load(ctx context.Context, dir string, about inheritance) (err error) {
	state, err := readDigested(dir, devicesFile, t.Manifest.Devices)
	if err != nil {
		return err
	}
	if t.devices, err = sealedBytes("agentbox-devices", state); err != nil {
		return err
	}
	if t.memory, err = memfile.New(memoryName, t.Manifest.Memory); err != nil {
		return err
	}
	if err := loadPages(ctx, dir, memoryFile, t.Memory, fileSpace{t.memory}); err != nil {
		return err
	}
	if t.blocks, err = memfile.New("agentbox-runtime", t.disk.Length); err != nil {
		return err
	}
	if err := loadPages(ctx, dir, templateDiskFile, t.disk, newPacked(t.blocks, t.disk)); err != nil {
		return err
	}
	for _, f := range []*os.File{t.memory, t.blocks} {
		if err := memfile.Seal(f); err != nil {
			return err
		}
	}
	head, err := json.Marshal(about)
	if err != nil {
		return err
	}
	t.about, err = sealedBytes("agentbox-template", head)
	return err
}

// sealedBytes is a memory file of the given content.
func sealedBytes(name string, content []byte) (*os.File, error) {
	return memfile.Sealed(name, func(f *os.File) error {
		_, err := f.WriteAt(content, 0)
		return err
	})
}

// reopen gives a second file with an offset of its own: QEMU reads device state from where the
// offset is.
func reopen(f *os.File) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

// packed is a page set's own data file as a sink: it keeps the packing.
type packed struct {
	f    *os.File
	data map[int64]int64 // a region's offset in the space to that in the file
}

// newPacked is for the file f, which x describes.
func newPacked(f *os.File, x *pageIndex) packed {
	p := packed{f, make(map[int64]int64, len(x.Regions))}
	for i := range x.Regions {
		p.data[x.Regions[i].Offset] = x.Regions[i].Data
	}
	return p
}

// writePages implements pageSink: the pages go where the index says that they lie.
func (p packed) writePages(src []byte, offset int64, _ *bitmap) error {
	_, err := p.f.WriteAt(src, p.data[offset])
	return err
}

// loadPages verifies a page set of a directory into sink; pages that do not match make the
// directory corrupt. The size is compared first, so that a file with something behind its pages is
// damaged, too.
func loadPages(ctx context.Context, dir, name string, x *pageIndex, sink pageSink) error {
	f, err := os.Open(filepath.Join(dir, name+pagesSuffix))
	if errors.Is(err, os.ErrNotExist) {
		return statedir.Corrupt(dir, "%s is missing", name+pagesSuffix)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Size() != x.Length {
		return statedir.Corrupt(dir, "%s has %d bytes instead of %d", name+pagesSuffix, info.Size(), x.Length)
	}
	if err == nil {
		err = readPages(ctx, f, x, sink)
	}
	if errors.Is(err, errPages) {
		return statedir.Corrupt(dir, "%s: %w", name+pagesSuffix, err)
	}
	return err
}

// InheritTemplate implements vmm.Snapshotter. The files are trusted as far as they are sealed: they
// come from a process of the same user that verified them.
func (d *Driver) InheritTemplate(files []*os.File) (vmm.Template, error) {
	if len(files) != 4 {
		return nil, fmt.Errorf("a template is inherited as 4 files, not %d", len(files))
	}
	for _, f := range files {
		if err := memfile.Check(f); err != nil {
			return nil, err
		}
	}
	t := &template{memory: files[0], devices: files[1], blocks: files[2], about: files[3]}
	if err := t.inherit(); err != nil {
		return nil, fmt.Errorf("inherit a template: %w", err)
	}
	return t, nil
}

// inherit decodes what the memory file about says. The manifest and the indexes are checked again,
// as they are small; the pages are not.
func (t *template) inherit() error {
	var about inheritance
	head, err := io.ReadAll(io.NewSectionReader(t.about, 0, 1<<30))
	if err == nil {
		err = json.Unmarshal(head, &about)
	}
	if err != nil {
		return err
	}
	if t.Manifest, t.ID, err = statedir.Unseal[manifest](about.Manifest); err != nil {
		return err
	}
	if agentbox.Digest(sha256.Sum256(about.MemoryIndex)) != t.Manifest.MemoryIndex || agentbox.Digest(sha256.Sum256(about.DiskIndex)) != t.Manifest.DiskIndex {
		return errors.New("its indexes do not match its manifest")
	}
	if t.Memory, err = decodeIndex(about.MemoryIndex); err != nil {
		return err
	}
	t.disk, err = decodeIndex(about.DiskIndex)
	return err
}
