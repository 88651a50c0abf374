package layers

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/vmm/kernel"
)

// Archives keeps directories of plain files in the store, each as one blob under one name: the
// templates and kernels that machines start from. The directories stay where they are; what is in
// the store is for the team. Its methods may be called at once, also for the same key; dir belongs
// to the call as long as it lasts.
type Archives struct {
	// Store returns the store, waiting until it is open.
	Store func(ctx context.Context) (*cachestore.Store, error)
}

// The namespaces of archives. The key of a template is KEY/IMAGE, each as hex; that of a kernel
// ARCHITECTURE/RELEASE.
const (
	templateNamespace = "template"
	kernelNamespace   = "kernel"
)

// archiveType is the media type of an archive: a tar of plain files, none in a directory.
const archiveType = "application/vnd.agentbox.archive+tar"

// Bounds of an archive that somebody else made. A template has the memory of a machine that has
// just booted.
const (
	// The sizes are in bytes of all files together.
	MaxTemplate = 8 << 30
	MaxKernel   = 256 << 20
	maxFiles    = 512
)

// TemplateName is the name of a template of an image, not signed yet. key is the template's, as
// hex.
func TemplateName(key string, image agentbox.Digest) blob.Name {
	return blob.Name{Namespace: templateNamespace, Key: key + "/" + image.Hex(), Scope: blob.Team}
}

// TemplateOf returns which template a name is of, and what image its machine booted. ok is false
// for a name of anything else, and for one that is malformed: names come from peers, too.
func TemplateOf(n blob.Name) (key string, image agentbox.Digest, ok bool) {
	key, text, ok := strings.Cut(n.Key, "/")
	image, err := agentbox.ParseDigest("sha256:" + text)
	_, keyErr := agentbox.ParseDigest("sha256:" + key)
	return key, image, ok && n.Namespace == templateNamespace && err == nil && keyErr == nil
}

// KernelName is the name of a guest kernel, not signed yet.
func KernelName(arch, release string) blob.Name {
	return blob.Name{Namespace: kernelNamespace, Key: arch + "/" + release, Scope: blob.Team}
}

// KernelOf returns which kernel a name is of. The release becomes the name of a directory, so it
// must be a plain one.
func KernelOf(n blob.Name) (arch, release string, ok bool) {
	arch, release, ok = strings.Cut(n.Key, "/")
	return arch, release, ok && n.Namespace == kernelNamespace && arch != "" && isFileName(release)
}

// Add takes a directory into the store under a name of ours, unless the store has one for that key
// by somebody who is believed. dir holds plain files only; FileOrigin is left out. Two machines
// that keep the same files publish the same bytes.
func (a Archives) Add(ctx context.Context, n blob.Name, dir string) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	// A name that is believed stays: two machines may have made the same, and one of them is
	// enough.
	if _, err := store.Lookup(n.Namespace, n.Key); agentbox.CodeOf(err) != agentbox.NotFound {
		return err
	}
	stored, err := put(ctx, store, dir)
	if err != nil {
		return err
	}
	// A name that is left is by a maker that is no longer trusted. Keeping it would raise an alarm.
	if err := store.Unpublish(n.Namespace, n.Key); err != nil && agentbox.CodeOf(err) != agentbox.NotFound {
		return err
	}
	n.Manifest = stored.Manifest
	_, err = store.Publish(ctx, n)
	return err
}

// put stores the files of a directory. The archive is packed as it is stored, and is never whole in
// memory or in a file.
func put(ctx context.Context, store *cachestore.Store, dir string) (cachestore.PutResult, error) {
	r, w := io.Pipe()
	var packing sync.WaitGroup
	packing.Go(func() { w.CloseWithError(pack(w, dir)) })
	stored, err := store.PutStream(ctx, r, blob.Info{Kind: blob.Cache, MediaType: archiveType})
	err = errors.Join(err, r.Close()) // which ends pack
	packing.Wait()
	return stored, err
}

// Adopt gets an archive of at most limit bytes from the team into dir, which is empty, and keeps it
// under the name by which who made it published it. progress may be nil. On an error dir may have a
// part of the files, which the caller removes. Corrupt says that what came is no such archive. The
// store's name is taken over last: it is there only when the directory is.
func (a Archives) Adopt(ctx context.Context, remotes *Remotes, n blob.Name, dir string, limit int64, progress func(done, total int)) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	src := remotes.Source(Team)
	m, err := store.EnsureManifest(ctx, n.Manifest, src)
	if err != nil {
		return err
	}
	// The manifest is the peer's word; what it says is looked at before anything is got for it.
	if m.Blocks || m.MediaType != archiveType || m.Size > limit {
		return agentbox.Errorf(agentbox.Corrupt, "%.80s/%.80s is a blob of %d bytes and type %.80q", n.Namespace, n.Key, m.Size, m.MediaType)
	}
	if err := store.Fetch(ctx, n.Manifest, src, progress); err != nil {
		return err
	}
	r, err := store.OpenBlob(ctx, n.Manifest, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(unpack(io.NewSectionReader(r, 0, r.Size()), dir, limit), r.Close()); err != nil {
		return err
	}
	// Ours for that key, if there is one, is of a directory that is not here any more.
	if err := unpublishOther(store, n); err != nil {
		return err
	}
	return store.AddName(ctx, n)
}

// unpublishOther unpublishes the key of a name if it stands for another manifest: the store has one
// name for a key, and would refuse the new one as a contradiction.
func unpublishOther(store *cachestore.Store, n blob.Name) error {
	old, err := store.Lookup(n.Namespace, n.Key)
	if err != nil || old.Manifest == n.Manifest {
		return nil // what cannot be read is written over
	}
	return store.Unpublish(n.Namespace, n.Key)
}

// Templates lists the names of those that the store has.
func (a Archives) Templates(ctx context.Context) ([]blob.Name, error) {
	store, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	return store.Names(templateNamespace, "")
}

// ForgetTemplate lets go of a template, whatever image it is of. Its space is given back with it.
// Nothing to forget is no error.
func (a Archives) ForgetTemplate(ctx context.Context, key string) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	names, err := store.Names(templateNamespace, key+"/")
	for _, n := range names {
		err = errors.Join(err, store.Forget(ctx, n.Namespace, n.Key))
	}
	return err
}

// pack writes the files of a directory as a tar: the same bytes wherever the files are the same.
// Owners, times and modes are left out for that.
func pack(w io.Writer, dir string) error {
	entries, err := os.ReadDir(dir) // in order
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for _, e := range entries {
		if e.Name() == kernel.FileOrigin { // templates have one, too
			continue // every machine writes its own
		}
		if !e.Type().IsRegular() || !isFileName(e.Name()) {
			return fmt.Errorf("%s is not a plain file", filepath.Join(dir, e.Name()))
		}
		if err := packFile(out, filepath.Join(dir, e.Name()), e.Name()); err != nil {
			return err
		}
	}
	return out.Close()
}

// packFile adds one file. One that grew since its header was written is cut there; one that shrank
// makes the archive an error.
func packFile(out *tar.Writer, path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o600, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(f, info.Size()))
	return err
}

// unpack writes the files of an archive that somebody else made into a directory, at most limit
// bytes: what a tar calls sparse is larger than the tar. Names are checked and opened below dir, so
// nothing is written elsewhere; a name that appears twice is refused, as its file exists.
func unpack(r io.Reader, dir string, limit int64) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	in := tar.NewReader(r)
	for n := 0; ; n++ {
		h, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return agentbox.Errorf(agentbox.Corrupt, "an archive cannot be read: %w", err)
		}
		if n == maxFiles || h.Typeflag != tar.TypeReg || !isFileName(h.Name) || h.Name == kernel.FileOrigin {
			return agentbox.Errorf(agentbox.Corrupt, "an archive has %.80q in it, which is not one of at most %d plain files", h.Name, maxFiles)
		}
		if limit -= h.Size; limit < 0 {
			return agentbox.Errorf(agentbox.Corrupt, "an archive has more in it than its maker may send")
		}
		if err := unpackFile(root, h.Name, in); err != nil {
			return err
		}
	}
}

// unpackFile writes one file and waits until it is on disk: the name of the archive says later that
// it is complete.
func unpackFile(root *os.Root, name string, in io.Reader) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "unpack %s: %w", name, err)
	}
	_, err = io.Copy(f, in)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return agentbox.MarkNoSpace(fmt.Errorf("unpack %s: %w", name, err))
	}
	return nil
}

// fileName is the name of a plain, visible file in a directory.
var fileName = agentbox.Pattern(`^[A-Za-z0-9_+~-][A-Za-z0-9._+~-]{0,127}$`)

func isFileName(name string) bool { return fileName().MatchString(name) }
