package daemon

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"sync/atomic"

	"agentbox/agentbox"
	"agentbox/agentbox/contexts"
	"agentbox/agentbox/host/images"
	"agentbox/agentbox/layers"
	"agentbox/agentbox/team"
	"agentbox/cachestore"
	"agentbox/mesh"
	"agentbox/mesh/exchange"
	"agentbox/vmm/image"
)

// shares is what boxes are made of and what the team may have: the store, the remotes of missing
// content, and this machine's part in its team. share creates it before there are boxes, and it
// is closed after them.
type shares struct {
	key     ed25519.PrivateKey // the host's, which signs what it makes
	store   *layers.Opening
	images  *layers.Images
	results layers.SetupResults
	remotes *layers.Remotes
	sharing *layers.Sharing
	team    *team.Team
	mesh    *mesh.Mesh
	noMesh  error // why mesh is nil

	inUse    atomic.Pointer[images.Images]  // what boxes run from; nil before there are any
	contexts atomic.Pointer[contexts.Owner] // who hands over what may be entered; nil before there are boxes
	machines chan struct{}                  // receives when there may be templates or kernels that the team wants
}

// mdnsEnv set to off disables multicast on the local network, both to announce this machine and to
// look for others.
const mdnsEnv = "AGENTBOX_MDNS"

// onJoin offers at once what is here. It is called when this machine has become a member.
func (s *shares) onJoin() {
	if i := s.inUse.Load(); i != nil {
		i.StoreNow()
	}
	s.notifyMachines()
}

// share creates the parts, which depend on each other in a circle: the team needs the store, and
// the store needs the team. It closes the circle by setting functions before anything runs. If the
// team's files cannot be read, share records the error and only the team is unavailable.
func share(ctx context.Context, cfg Config, images *image.Store) (*shares, error) {
	key, err := layers.SigningKey(cfg.Home.StoreKey())
	if err != nil {
		return nil, err
	}
	t := team.New()
	s := &shares{key: key, team: t, remotes: &layers.Remotes{File: cfg.Home.Remotes(), Peers: t.Peers}, machines: make(chan struct{}, 1)}
	// The store is opened in the background, and only calls that need it wait.
	s.store = layers.OpenAsync(ctx, cachestore.Config{Dir: cfg.Home.Store(), Key: key, Log: cfg.Log, Trusted: t.Trusts, OnNameChange: t.Notify}, reverifyDamaged(images, cfg.Log))
	s.images = &layers.Images{Store: s.store.Store, Remotes: s.remotes, Key: key.Public().(ed25519.PublicKey)}
	s.sharing = &layers.Sharing{Store: s.store.Store, File: cfg.Home.Shared(), Changed: t.SharingChanged}
	s.sharing.Granted = func(peer exchange.PeerID, manifest agentbox.Digest) bool {
		o := s.contexts.Load()
		return o != nil && o.Granted(peer, manifest)
	}
	s.results = layers.SetupResults{Store: s.store.Store, Key: s.images.Key}
	t.Images, t.SetupResults, t.Sharing, t.Files, t.Log = s.images, s.results, s.sharing, images, cfg.Log
	images.FindRemote = t.Image
	t.OnJoin, t.OnMade = s.onJoin, s.notifyMachines
	s.mesh, s.noMesh = mesh.Open(mesh.Config{
		Dir: cfg.Home.Mesh(), Key: key, Log: cfg.Log, Attach: t.Attach, OnCatalogueChange: t.Changed, OnListChange: t.Notify, NoMulticast: os.Getenv(mdnsEnv) == "off",
	})
	if s.noMesh != nil {
		cfg.Log.Error("this machine's part in its team cannot be read", "error", s.noMesh)
		return s, nil
	}
	t.Join(s.mesh) // before there are boxes: those on other members' images need their names
	return s, nil
}

// close stops peers from using the store, and then closes the store.
func (s *shares) close() error {
	var err error
	if s.mesh != nil {
		err = s.mesh.Close()
	}
	return errors.Join(err, s.store.Close())
}
