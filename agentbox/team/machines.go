package team

import (
	"context"
	"runtime"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/layers"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
	"agentbox/vmm/kernel"
)

// How long a template and a kernel may take to come. After that, booting a machine, or getting the
// kernel from the distribution, takes no longer.
const (
	templateTime = 20 * time.Second
	kernelTime   = time.Minute
)

// Template fills dir, which is empty, with a template that a builder made for a key, and says who:
// the PeerID, "" where it was this machine, and the name for people. The key has all in it that a
// template depends on, so whose machine differs asks for another key. NotFound: nobody offers it.
// progress is told how many pieces have come; it may be nil.
func (t *Team) Template(ctx context.Context, key, dir string, progress func(done, total int)) (by, name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, templateTime)
	defer cancel()
	// The catalogue's key is the peer's word, the name's is signed.
	offers := slices.DeleteFunc(t.offered(catalogue.Template, key), func(o offer) bool {
		got, _, ok := layers.TemplateOf(o.name)
		return !ok || got != key
	})
	return t.archive(ctx, &t.counters.Templates, "template", key, offers, dir, layers.MaxTemplate, progress)
}

// Kernel fills dir, which is empty, with the newest guest kernel that a builder offers, and says who
// got it where they got it. NotFound: nobody offers one.
func (t *Team) Kernel(ctx context.Context, dir string, progress func(done, total int)) (by, name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, kernelTime)
	defer cancel()
	offers := slices.DeleteFunc(t.offered(catalogue.Kernel, runtime.GOARCH), func(o offer) bool {
		arch, _, ok := layers.KernelOf(o.name)
		return !ok || arch != runtime.GOARCH
	})
	slices.SortStableFunc(offers, func(a, b offer) int {
		_, one, _ := layers.KernelOf(a.name)
		_, other, _ := layers.KernelOf(b.name)
		return kernel.CompareReleases(other, one)
	})
	return t.archive(ctx, &t.counters.Kernels, "a kernel for", runtime.GOARCH, offers[:min(1, len(offers))], dir, layers.MaxKernel, progress)
}

// archive gets the first of these offers that comes. One that comes in part leaves dir as it is, so
// another is tried only where none of it has been unpacked. by is "" for one of ours.
func (t *Team) archive(ctx context.Context, count *Lookups, what, key string, offers []offer, dir string, limit int64, progress func(done, total int)) (by, name string, err error) {
	err = t.first(ctx, count, what, key, offers, func(o offer) (again bool, err error) {
		if err := t.reach(ctx, o.Manifest); err != nil {
			return true, err
		}
		if err := t.archives().Adopt(ctx, t.Images.Remotes, o.name, dir, limit, progress); err != nil {
			return false, err
		}
		maker := identity.PeerOf(o.name.Producer)
		if name = t.memberName(maker); maker != t.self() { // else one of ours comes back
			by = maker.String()
		}
		return false, nil
	})
	return by, name, err
}

// archives are the templates and kernels of the one store that there is.
func (t *Team) archives() layers.Archives { return layers.Archives{Store: t.SetupResults.Store} }

// TemplateMade says that there is a template that was not here a moment ago. It does not wait.
func (t *Team) TemplateMade() {
	if t.Made != nil {
		t.Made()
	}
}

// KernelFetched says the same of a kernel.
func (t *Team) KernelFetched() { t.TemplateMade() }

// KeepTemplate takes a template that was made here into the store, where there is a team that may
// have it: one of an image without files of this host. Without a team it does nothing: packing a
// template takes a moment that nobody should wait for then.
func (t *Team) KeepTemplate(ctx context.Context, key string, image agentbox.Digest, dir string) error {
	if !t.Waits() {
		return nil
	}
	img, err := t.Files.Get(image.String())
	if agentbox.CodeOf(err) == agentbox.NotFound || err == nil && len(img.Include) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	n := layers.TemplateName(key, image)
	n.Comment = "template of " + image.Short()
	return t.archives().Keep(ctx, n, dir)
}

// ForgetTemplate takes a template back that is not here any more.
func (t *Team) ForgetTemplate(ctx context.Context, key string) error {
	return t.archives().ForgetTemplate(ctx, key)
}

// KeepKernel is KeepTemplate for a kernel that was fetched here.
func (t *Team) KeepKernel(ctx context.Context, release, dir string) error {
	if !t.Waits() {
		return nil
	}
	n := layers.KernelName(runtime.GOARCH, release)
	n.Comment = "guest kernel " + release
	return t.archives().Keep(ctx, n, dir)
}

// Distrusts tells whether what a member made is not to be used any more (a PeerID; "" is us).
func (t *Team) Distrusts(by string) bool {
	m := t.mesh.Load()
	if m == nil || by == "" {
		return false
	}
	id, _ := identity.ParsePeer(by) // what is no PeerID is nobody's, and no builder's
	return m.WasBuilder(id)
}
