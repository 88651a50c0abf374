package daemon

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"sync/atomic"

	"agentbox/agentbox/host/images"
	"agentbox/agentbox/layers"
	"agentbox/agentbox/team"
	"agentbox/cachestore"
	"agentbox/mesh"
	"agentbox/vmm/image"
)

// shares is what boxes are made of and the team may have: the store, where what is missing comes
// from, and this machine's part in its team. It is put together by share before there are boxes,
// and closed after them.
type shares struct {
	store   *layers.Opening
	images  *layers.Images
	results layers.SetupResults
	remotes *layers.Remotes
	sharing *layers.Sharing
	team    *team.Team
	mesh    *mesh.Mesh
	noMesh  error // why mesh is nil

	inUse    atomic.Pointer[images.Images] // what boxes run from, once there are any
	machines chan struct{}                 // there may be templates or kernels that the team wants
}

// mdnsEnv set to off keeps this machine from announcing itself by multicast on the local network,
// and from looking for others so.
const mdnsEnv = "AGENTBOX_MDNS"

// joined has what is here offered at once. It is called when this machine has become a member.
func (s *shares) joined() {
	if i := s.inUse.Load(); i != nil {
		i.KeepNow()
	}
	s.machinesMade()
}

// The parts need each other in a circle (the team asks the store, the store the team), which is
// closed here by setting functions before anything runs. A team that cannot be read is noted and
// costs the team only.
func share(ctx context.Context, cfg Config, images *image.Store) (*shares, error) {
	key, err := layers.SigningKey(cfg.Home.StoreKey())
	if err != nil {
		return nil, err
	}
	t := team.New()
	s := &shares{team: t, remotes: &layers.Remotes{File: cfg.Home.Remotes(), Peers: t.Peers}, machines: make(chan struct{}, 1)}
	// The store is opened beside, and only calls that need it wait for that.
	s.store = layers.Begin(ctx, cachestore.Config{Dir: cfg.Home.Store(), Key: key, Log: cfg.Log, Trusted: t.Trusts, Named: t.Wake}, distrust(images, cfg.Log))
	s.images = &layers.Images{Store: s.store.Store, Remotes: s.remotes, Key: key.Public().(ed25519.PublicKey)}
	s.sharing = &layers.Sharing{Store: s.store.Store, File: cfg.Home.Shared(), Changed: t.SharingChanged}
	s.results = layers.SetupResults{Store: s.store.Store, Key: s.images.Key}
	t.Images, t.SetupResults, t.Sharing, t.Files, t.Log = s.images, s.results, s.sharing, images, cfg.Log
	images.Elsewhere = t.Image
	t.Joined, t.Made = s.joined, s.machinesMade
	s.mesh, s.noMesh = mesh.Open(mesh.Config{
		Dir: cfg.Home.Mesh(), Key: key, Log: cfg.Log, Attach: t.Attach, Changed: t.Changed, Listed: t.Wake, Alone: os.Getenv(mdnsEnv) == "off",
	})
	if s.noMesh != nil {
		cfg.Log.Error("this machine's part in its team cannot be read", "error", s.noMesh)
		return s, nil
	}
	t.Join(s.mesh) // before there are boxes: those that run from images of others need their names
	return s, nil
}

// close ends what peers do with the store, and then the store.
func (s *shares) close() error {
	var err error
	if s.mesh != nil {
		err = s.mesh.Close()
	}
	return errors.Join(err, s.store.Close())
}
