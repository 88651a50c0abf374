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

// How long the transfer of a template or a kernel may take. A longer transfer saves nothing over
// booting a machine, or fetching the kernel from the distribution.
const (
	templateTimeout = 20 * time.Second
	kernelTimeout   = time.Minute
)

// Template fills dir, which must be empty, with a template that a builder made for a key. It
// returns the maker's PeerID, "" if it was this machine, and the maker's display name. The key
// contains everything that a template depends on, so a machine that differs uses another key.
// Template returns NotFound if nobody offers it. progress receives the number of pieces that have
// arrived; it may be nil.
func (t *Team) Template(ctx context.Context, key, dir string, progress func(done, total int)) (by, name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, templateTimeout)
	defer cancel()
	// The key in the catalogue is only the peer's claim. The key in the name is signed.
	offers := slices.DeleteFunc(t.offersOf(catalogue.Template, key), func(o offer) bool {
		got, _, ok := layers.TemplateOf(o.name)
		return !ok || got != key
	})
	return t.archive(ctx, &t.counters.Templates, "template", key, offers, dir, layers.MaxTemplate, progress)
}

// Kernel fills dir, which must be empty, with the newest guest kernel that a builder offers. It
// returns the builder that fetched the kernel from its source. It returns NotFound if nobody offers
// one.
func (t *Team) Kernel(ctx context.Context, dir string, progress func(done, total int)) (by, name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, kernelTimeout)
	defer cancel()
	offers := slices.DeleteFunc(t.offersOf(catalogue.Kernel, runtime.GOARCH), func(o offer) bool {
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

// archive unpacks the first of these offers that can be fetched. A transfer that fails midway
// leaves partial contents in dir, so another offer is tried only if nothing has been unpacked yet.
// by is "" for one of our own.
func (t *Team) archive(ctx context.Context, count *Lookups, what, key string, offers []offer, dir string, limit int64, progress func(done, total int)) (by, name string, err error) {
	err = t.fetchFirst(ctx, count, what, key, offers, func(o offer) (again bool, err error) {
		if err := t.awaitReachable(ctx, o.Manifest); err != nil {
			return true, err
		}
		if err := t.archives().Adopt(ctx, t.Images.Remotes, o.name, dir, limit, progress); err != nil {
			return false, err
		}
		maker := identity.PeerOf(o.name.Producer)
		if name = t.memberName(maker); maker != t.self() { // otherwise one of our own comes back
			by = maker.String()
		}
		return false, nil
	})
	return by, name, err
}

func (t *Team) archives() layers.Archives { return layers.Archives{Store: t.SetupResults.Store} }

// TemplateMade announces that a new template is here. It does not block.
func (t *Team) TemplateMade() {
	if t.OnMade != nil {
		t.OnMade()
	}
}

// KernelFetched announces that a new kernel is here. It does not block.
func (t *Team) KernelFetched() { t.TemplateMade() }

// KeepTemplate stores a template that was made here, if there is a team that may have it: its image
// must not contain files of this host. Without a team it does nothing, because packing a template
// takes time that would then be wasted.
func (t *Team) KeepTemplate(ctx context.Context, key string, image agentbox.Digest, dir string) error {
	if !t.HasPeers() {
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
	return t.archives().Add(ctx, n, dir)
}

// ForgetTemplate removes a template from the store that is no longer on this machine.
func (t *Team) ForgetTemplate(ctx context.Context, key string) error {
	return t.archives().ForgetTemplate(ctx, key)
}

// KeepKernel is KeepTemplate for a kernel that was fetched here.
func (t *Team) KeepKernel(ctx context.Context, release, dir string) error {
	if !t.HasPeers() {
		return nil
	}
	n := layers.KernelName(runtime.GOARCH, release)
	n.Comment = "guest kernel " + release
	return t.archives().Add(ctx, n, dir)
}

// IsRevoked reports whether results of a member must no longer be used. by is a PeerID; "" is this
// machine.
func (t *Team) IsRevoked(by string) bool {
	m := t.mesh.Load()
	if m == nil || by == "" {
		return false
	}
	id, _ := identity.ParsePeer(by) // text that is no PeerID belongs to no builder
	return m.WasBuilder(id)
}
