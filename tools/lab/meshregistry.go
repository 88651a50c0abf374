package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"agentbox/agentbox"
)

// registryDistributor is a registry of container images. One of these has the image as its only
// layer.
type registryDistributor struct {
	o      *cluster
	dir    string
	server *server
	// pullers are the processes that pull, from machine 1 on. Samples do not include their start.
	pullers []*meshProcess
}

// registryPort is a port of the first machine's namespace.
const registryPort = "7500"

// openRegistry starts a registry on the first machine, pushes the image into it, and starts the
// processes that pull it with the library that we ourselves use for images. The registry logs
// errors alone and exports no traces, so that samples include neither.
func openRegistry(ctx context.Context, o *cluster, program string, machines int) (_ distributor, err error) {
	g := &registryDistributor{o: o}
	if g.dir, err = o.peerDir("registry"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	conf, err := writeRegistryConfig(g.dir, g.at())
	if err != nil {
		return nil, err
	}
	if g.server, err = o.serve(ctx, 0, g.dir, []string{"OTEL_TRACES_EXPORTER=none"}, false, program, "serve", conf); err != nil {
		return nil, err
	}
	if err := retryUntil(ctx, func() error {
		_, err := o.seed.do(meshOrder{Do: "push", Path: g.at()})
		return err
	}); err != nil {
		return nil, err
	}
	for i := 1; i < machines; i++ {
		p, err := o.start(ctx, i)
		if err != nil {
			return nil, err
		}
		g.pullers = append(g.pullers, p)
	}
	return g, nil
}

// writeRegistryConfig writes the configuration of a registry that has a directory and an address.
func writeRegistryConfig(dir, at string) (conf string, err error) {
	conf = filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage:\n  filesystem: {rootdirectory: %s}\nhttp: {addr: %q}\n", filepath.Join(dir, "blobs"), at)
	return conf, os.WriteFile(conf, []byte(text), 0o600)
}

// at returns the address of the registry.
func (g *registryDistributor) at() string { return g.o.address(0).Addr().String() + ":" + registryPort }

// get has a machine pull. The process takes the time itself, so that its start does not count, just
// as with our own.
func (g *registryDistributor) get(_ context.Context, i int) (time.Duration, error) {
	r, err := g.pullers[i-1].do(meshOrder{Do: "pull", Path: g.at(), Size: g.o.l.cfg.Small})
	return r.Took, err
}

func (g *registryDistributor) close() error {
	return errors.Join(g.server.close(), killAll(g.pullers), os.RemoveAll(g.dir))
}

// registryImage returns the reference of the image in the registry at an address.
func registryImage(at string) (name.Reference, error) {
	return name.ParseReference(at+"/bench/image:latest", name.Insecure)
}

// push puts the machine's image into a registry, as the only layer of a container image. It is
// uncompressed: it is random bytes, and the sample would include compressing them.
func (n *meshNode) push(ctx context.Context, at string) error {
	ref, err := registryImage(at)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(n.image)
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, static.NewLayer(b, types.OCIUncompressedLayer))
	if err != nil {
		return err
	}
	return remote.Write(ref, img, remote.WithContext(ctx))
}

// pull gets the layer of that image, verified, into a file on disk. A layer of another length than
// size is an error, because getting less must not count as fast.
func (n *meshNode) pull(ctx context.Context, at string, size int64) (r meshReport, err error) {
	ref, err := registryImage(at)
	if err != nil {
		return r, err
	}
	start := time.Now()
	img, err := remote.Image(ref, remote.WithContext(ctx))
	if err != nil {
		return r, err
	}
	layers, err := img.Layers()
	if err != nil {
		return r, err
	}
	if len(layers) != 1 {
		return r, agentbox.Errorf(agentbox.Corrupt, "the image has %d layers", len(layers))
	}
	r.Bytes, err = saveLayer(layers[0], filepath.Join(n.dir, "layer"))
	if r.Took = time.Since(start); err == nil && r.Bytes != size {
		err = fmt.Errorf("%d bytes came of %d", r.Bytes, size)
	}
	return r, err
}

// saveLayer writes a layer to a file, syncs it, and returns the number of bytes.
func saveLayer(l v1.Layer, path string) (int64, error) {
	from, err := l.Compressed() // which checks the digest at its end
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(to, from)
	return n, errors.Join(err, to.Sync(), to.Close())
}
