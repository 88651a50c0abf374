package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/layers"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange"
	"agentbox/mesh/identity"
	meshwire "agentbox/mesh/wire"
)

// MeshNodeVerb is the hidden verb by which `lab mesh` starts the processes that it measures.
const MeshNodeVerb = "mesh-node"

// meshNodeConfig is the configuration of such a process, in node.json of its directory. The same
// program writes and reads it, so it has no version.
type meshNodeConfig struct {
	Seed    []byte // of its key
	Team    agentbox.Digest
	List    []byte // the team's members
	Listen  string // UDP
	Peers   map[string]netip.AddrPort
	Holders []identity.PeerID // of everything
	Upload  int64             // bytes per second at most; 0: no limit
}

// meshOrder is a line of the process's standard input, and meshReport is the line that answers it,
// both in JSON. When an order fails, Error is set and the process continues.
type meshOrder struct {
	// Do is image, export, part, fetch, sent, push, pull, serve-tcp, get-tcp or get-quic (do,
	// copies). Path is the file, directory, address or peer that it works on.
	Do       string
	Path     string
	Manifest agentbox.Digest
	From, To int     // chunks
	Tell     float64 // for fetch: the fraction after which it sends an extra report
	// Size is for pull: the bytes that have to arrive.
	Size int64
}

// meshReport is an answer. The process itself measures Took, so that giving it the order does not
// count.
type meshReport struct {
	Error    string
	Manifest agentbox.Digest
	Took     time.Duration
	// Bytes were received or sent, depending on the order.
	Bytes int64
	Part  bool // more follows
}

// meshNode is the process: a store and its part in the exchange, without a daemon. It also is the
// Holders of the exchange and returns the peers that the benchmark named, so that no catalogue is
// measured.
type meshNode struct {
	cfg    meshNodeConfig
	dir    string
	store  *cachestore.Store
	places *layers.Remotes
	// sharing is what it may serve; places is where it gets blobs from.
	sharing *layers.Sharing
	wire    *meshwire.Node
	node    *exchange.Node
	out     *json.Encoder
	image   string // the file that is copied as a baseline
}

// RunMeshNode serves and fetches as ordered until in ends, which happens when the benchmark ends.
// dir holds node.json and gets the store. It writes nothing but reports to out; the first one says
// that it is ready.
func RunMeshNode(ctx context.Context, dir string, in io.Reader, out io.Writer) (err error) {
	b, err := os.ReadFile(filepath.Join(dir, "node.json"))
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "%w", err)
	}
	n := &meshNode{dir: dir, out: json.NewEncoder(out)}
	if err := json.Unmarshal(b, &n.cfg); err != nil {
		return agentbox.Errorf(agentbox.Invalid, "node.json: %w", err)
	}
	defer func() { err = errors.Join(err, n.close()) }()
	if err := n.open(ctx, dir); err != nil {
		return err
	}
	if err := n.out.Encode(meshReport{}); err != nil { // it is ready
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var o meshOrder
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return agentbox.Errorf(agentbox.Invalid, "an order: %w", err)
		}
		r, err := n.do(ctx, o)
		if err != nil {
			r.Error = err.Error()
		}
		if err := n.out.Encode(r); err != nil {
			return err
		}
	}
	return lines.Err()
}

// open makes the store and the node from the packages that the daemon uses, so that users have what
// is measured. The store reserves no space for a full disk.
func (n *meshNode) open(ctx context.Context, dir string) (err error) {
	key := ed25519.NewKeyFromSeed(n.cfg.Seed)
	if n.store, err = cachestore.Open(ctx, cachestore.Config{Dir: filepath.Join(dir, "store"), Key: key, ReserveFile: -1}); err != nil {
		return err
	}
	list, err := identity.DecodeList(n.cfg.List, n.cfg.Team)
	if err != nil {
		return err
	}
	if n.wire, err = meshwire.Listen(meshwire.Config{Key: key, Listen: n.cfg.Listen}); err != nil {
		return err
	}
	n.wire.Admit(list)
	for text, address := range n.cfg.Peers {
		id, err := identity.ParsePeer(text)
		if err != nil {
			return err
		}
		n.wire.AddAddresses(id, address)
	}
	open := func(context.Context) (*cachestore.Store, error) { return n.store, nil }
	n.sharing = &layers.Sharing{Store: open, File: filepath.Join(dir, "shared.json")}
	network := exchange.OverWire(n.wire)
	n.node, err = exchange.New(exchange.Config{Self: n.wire.Self(), Network: network, Holders: n, Store: n.sharing, Upload: n.cfg.Upload})
	if err != nil {
		return err
	}
	network.Answer(n.node)
	n.wire.Handle(quicCopy, n.handleCopy)
	n.places = &layers.Remotes{File: filepath.Join(dir, "places.json"), Peers: func() *exchange.Node { return n.node }}
	return nil
}

// Holders returns the peers that the benchmark named, for every digest.
func (n *meshNode) Holders(agentbox.Digest) []identity.PeerID {
	return append([]identity.PeerID(nil), n.cfg.Holders...)
}

// close ends whatever open has made.
func (n *meshNode) close() error {
	var errs []error
	if n.node != nil {
		errs = append(errs, n.node.Close())
	}
	if n.wire != nil {
		errs = append(errs, n.wire.Close())
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}

// do carries out an order.
func (n *meshNode) do(ctx context.Context, o meshOrder) (meshReport, error) {
	switch o.Do {
	case "image":
		n.image = o.Path
		st, err := n.store.PutImageFile(ctx, o.Path, blob.Info{Kind: blob.Image}, 0)
		if err != nil {
			return meshReport{}, err
		}
		return meshReport{Manifest: st.Manifest}, n.sharing.Share(st.Manifest, true)
	case "export":
		if err := os.MkdirAll(o.Path, 0o700); err != nil {
			return meshReport{}, err
		}
		return meshReport{}, n.store.Export(ctx, o.Manifest, o.Path, nil)
	case "part":
		return meshReport{}, n.part(ctx, o)
	case "fetch":
		return n.fetch(ctx, o)
	case "sent":
		var r meshReport
		for _, t := range n.node.Traffic() {
			r.Bytes += t.Sent
		}
		return r, nil
	case "push":
		return meshReport{}, n.push(ctx, o.Path)
	case "pull":
		return n.pull(ctx, o.Path, o.Size)
	}
	return n.copies(ctx, o)
}

// part gets some chunks from a directory and shares what there is, like a peer whose download of an
// image was interrupted.
func (n *meshNode) part(ctx context.Context, o meshOrder) error {
	f, err := n.store.OpenLazyImage(ctx, o.Manifest, cachestore.Directory(o.Path))
	if err != nil {
		return err
	}
	var list []uint32
	for i := o.From; i < min(o.To, len(f.Manifest().Chunks)); i++ {
		list = append(list, uint32(i))
	}
	return errors.Join(f.Prefetch(ctx, list), f.Close(), n.store.Pin(ctx, "bench", o.Manifest), n.sharing.Share(o.Manifest, true))
}

// fetch gets an image from peers, verified and on disk. With Tell there are two reports, the first
// when that fraction has arrived.
func (n *meshNode) fetch(ctx context.Context, o meshOrder) (meshReport, error) {
	start := time.Now()
	told := o.Tell == 0
	f, err := n.store.OpenLazyImage(ctx, o.Manifest, n.places.Source(layers.Team))
	if err != nil {
		return meshReport{}, err
	}
	err = f.Complete(ctx, func(done, total int) {
		if !told && float64(done) >= o.Tell*float64(total) {
			told = true
			_ = n.out.Encode(meshReport{Part: true}) // the reader is gone when this fails
		}
	})
	took := time.Since(start)
	return meshReport{Took: took, Bytes: f.PresentBytes()}, errors.Join(err, f.Close())
}
