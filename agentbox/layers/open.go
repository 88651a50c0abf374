package layers

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/cachestore"
)

// Opening is a store that is being opened in the background, so that a daemon serves at once: an
// index of a million chunks takes a second, and most calls need none of it. Its one goroutine ends
// when the store is open or failed to; Close waits for it.
type Opening struct {
	done  chan struct{} // closed when store and err are set
	store *cachestore.Store
	err   error
}

// OpenAsync starts opening a store. What fails is logged, and is the error of every call that needs
// the store. ctx ends the opening. damaged is told which images turn out to be damaged in the
// store, in place of cfg.Damaged; nil: nobody is.
func OpenAsync(ctx context.Context, cfg cachestore.Config, damaged func(image agentbox.Digest)) *Opening {
	o := &Opening{done: make(chan struct{})}
	if damaged != nil {
		cfg.OnDamage = func(dmg cachestore.Damage) {
			if err := eachImageOf(o.store, dmg.Of, damaged); err != nil {
				cfg.Log.Error("cannot tell which image is damaged", "manifest", dmg.Of.Short(), "error", err)
			}
		}
	}
	go func() {
		defer close(o.done)
		o.store, o.err = cachestore.Open(ctx, cfg)
		if o.err != nil && ctx.Err() == nil {
			cfg.Log.Error("cannot open the store", "error", o.err)
		}
	}()
	return o
}

func eachImageOf(store *cachestore.Store, manifest agentbox.Digest, tell func(agentbox.Digest)) error {
	if manifest.IsZero() {
		return nil
	}
	names, err := store.Names(imageNamespace, "")
	for _, n := range names {
		if d, ok := ImageOf(n); ok && n.Manifest == manifest {
			tell(d)
		}
	}
	return err
}

// Store returns the store when it is open. It may be called from any goroutine, before and after;
// the store is the same for all and closed by Close only.
func (o *Opening) Store(ctx context.Context) (*cachestore.Store, error) {
	select {
	case <-o.done:
		return o.store, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close waits until the store is open, and closes it. Nothing may use the store any more.
func (o *Opening) Close() error {
	<-o.done
	if o.store == nil {
		return nil
	}
	return o.store.Close()
}

// SigningKey reads the key in a file, or makes one. It is written whole or not at all, as half a
// key would lock us out. A key that is lost costs the names it signed, and so what setup made. The
// file has the seed of 32 bytes (RFC 8032), for its owner alone.
func SigningKey(path string) (ed25519.PrivateKey, error) {
	seed, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			return nil, err
		}
		return key, durable.WriteFile(path, key.Seed(), 0o600)
	}
	if err != nil {
		return nil, err
	}
	if len(seed) != ed25519.SeedSize {
		return nil, agentbox.Errorf(agentbox.Corrupt, "%s is not a key of %d bytes", path, ed25519.SeedSize).
			WithHint("remove it: a new one is made, and what setup made is made again")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
