package kube

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"

	"agentbox/agentbox"
	"agentbox/agentbox/kube/oci"
	"agentbox/agentbox/kube/worker"
)

// Image is what the boxes of a task would be made from.
type Image struct {
	Digest agentbox.Digest
	Write  func(ctx context.Context, w io.Writer) error // as a tar archive
	Env    map[string]string
	User   string
	Setup  []string
}

// Registry prepares what pods need. The fields are required.
type Registry struct {
	// Image finds or makes the image of a task.
	Image func(ctx context.Context, t agentbox.Task) (Image, error)
	// Export writes the source of a task, whole.
	Export  func(ctx context.Context, d agentbox.Digest, w io.Writer) error
	Program string // the worker's, on this machine
	Temp    string // where layers are put together

	mu sync.Mutex // tasks that are submitted together need the same image: the first brings it
}

// Prepare puts the image and the source of a task into the registry, unless they are there, and returns the
// image's reference and what the worker does.
func (r *Registry) Prepare(ctx context.Context, repository string, t agentbox.Task) (image string, work worker.Work, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	img, err := r.Image(ctx, t)
	if err != nil {
		return "", work, err
	}
	program, err := agentbox.DigestFile(r.Program)
	if err != nil {
		return "", work, err
	}
	work = worker.Work{
		Subdir: t.Source.Subdir, Setup: img.Setup, Command: t.Command, Dir: t.Dir, User: img.User, Env: merged(merged(img.Env, map[string]string{"AGENTBOX_TASK": t.ID.String()}), t.Env), Wall: t.Limits.Wall,
	}
	if t.User != "" {
		work.User = t.User
	}
	if err := os.MkdirAll(r.Temp, 0o700); err != nil {
		return "", work, err
	}
	image, err = once(ctx, repository+":image-"+img.Digest.Hex()[:24]+"-"+program.Hex()[:24], func(ref string) (string, error) {
		return oci.PutImage(ctx, ref, runtime.GOARCH, r.Temp, nil, func(w io.Writer) error { return img.Write(ctx, w) }, r.writeProgram)
	})
	if err == nil {
		work.Source, err = once(ctx, repository+":source-"+t.Source.Digest.Hex(), func(ref string) (string, error) { return r.putSource(ctx, ref, t.Source.Digest) })
	}
	return image, work, err
}

// once makes what is not there.
func once(ctx context.Context, ref string, make func(ref string) (string, error)) (string, error) {
	found, err := oci.Find(ctx, ref)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return make(ref)
	}
	return found, err
}

func (r *Registry) writeProgram(w io.Writer) error {
	f, err := os.Open(r.Program)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for dir := filepath.Dir(worker.State); dir != "/"; dir = filepath.Dir(dir) {
		err = errors.Join(err, out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755}))
	}
	err = errors.Join(err, out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: filepath.Dir(worker.Program)[1:] + "/", Mode: 0o755}),
		out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: worker.Program[1:], Mode: 0o755, Size: info.Size()}))
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, f); err != nil {
		return err
	}
	return out.Close()
}

func (r *Registry) putSource(ctx context.Context, ref string, d agentbox.Digest) (string, error) {
	f, err := os.CreateTemp(r.Temp, "source-")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(r.Export(ctx, d, f), f.Close()); err != nil {
		return "", err
	}
	return oci.Put(ctx, ref, nil, oci.File{Type: oci.Source, Path: f.Name()})
}

// privateHosts are the addresses of a registry that is on a private network, as CIDRs: pods need it.
func privateHosts(ctx context.Context, repository string) (cidrs []string) {
	ref, err := name.NewRepository(repository)
	if err != nil {
		return nil
	}
	host := ref.RegistryStr()
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // without an answer it is taken for public
	for _, a := range found {
		if a = a.Unmap(); a.IsPrivate() {
			cidrs = append(cidrs, netip.PrefixFrom(a, a.BitLen()).String())
		}
	}
	return cidrs
}
