package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/bench"
	"agentbox/mesh/identity"
	"agentbox/tools/lab/netlab"
)

// MeshLab measures the exchange between machines: real processes, each in a network namespace of
// its own, joined by links of a known rate. Its files are in one directory, and its namespaces are
// named after this process. A process is a store and its part in the exchange, without a daemon;
// only mesh/cold-box and the scenarios of absent and idle teams run daemons. It needs root, except
// for the simulated scenarios.
type MeshLab struct {
	cfg MeshConfig
	dir string
	// team is the root key, keys are those of the machines; list is the member list of all.
	team ed25519.PrivateKey
	keys []ed25519.PrivateKey
	list identity.List

	missing []bench.Missing // of the scenarios that Scenarios returned last
}

// MeshConfig is what a MeshLab needs. Sizes are multiples of a block (blob.BlockSize).
type MeshConfig struct {
	Dir    string // where to work
	Binary string // the agentbox to measure
	Node   string // this program, which is also a machine (MeshNodeVerb)
	Large  int64  // bytes of the image that goes from one machine to one other
	Small  int64  // bytes of the image that goes to many
	// Peers adds the scenarios of other programs that do the same.
	Peers    bool
	Tools    string // where these are looked for first; "" for PATH only
	Progress agentbox.Progress
}

// meshMachines is the largest number of machines, including the one with the image.
const meshMachines = 16

// OpenMeshLab makes the keys and member list of a team. It starts nothing: scenarios make links and
// machines. The caller closes it.
func OpenMeshLab(cfg MeshConfig) (*MeshLab, error) {
	dir, err := os.MkdirTemp(cfg.Dir, "bench-mesh-")
	if err != nil {
		return nil, err
	}
	l := &MeshLab{cfg: cfg, dir: dir}
	if err := l.makeTeam(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// makeTeam makes keys and a member list of the largest number of machines, for all clusters of the
// lab.
func (l *MeshLab) makeTeam() error {
	root, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	l.team, l.list = key, identity.NewList(root)
	for i := range meshMachines {
		public, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			return err
		}
		e, err := identity.Entry{Team: l.list.Team(), Key: public, Name: fmt.Sprint("machine-", i), Roles: []identity.Role{identity.Builder}, Serial: uint64(i + 1), Issued: time.Now()}.Sign(l.team)
		if err != nil {
			return err
		}
		if l.list, err = l.list.With(e); err != nil {
			return err
		}
		l.keys = append(l.keys, key)
	}
	return nil
}

// Close removes the directory.
func (l *MeshLab) Close() error { return os.RemoveAll(l.dir) }

// Missing lists the scenarios that Scenarios left out because a program is not installed, as far as
// they match one of the patterns.
func (l *MeshLab) Missing(patterns []string) []bench.Missing {
	return slices.DeleteFunc(slices.Clone(l.missing), func(m bench.Missing) bool {
		ok, _ := bench.Matches(m.Name, patterns) // Select reports invalid patterns
		return !ok
	})
}

// image makes a file of random bytes, once for each size, so that nothing of it compresses or
// occurs twice.
func (l *MeshLab) image(size int64) (string, error) {
	path := filepath.Join(l.dir, fmt.Sprint("image-", size))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{byte(size)}), size)
	return path, errors.Join(err, f.Close())
}

// cluster is a team at work: links and the processes on them. Machine 0 is the seed, which has the
// image; the others begin with empty stores.
type cluster struct {
	l        *MeshLab
	links    *netlab.Net // nil: loopback is set
	loopback bool        // all processes run on this machine and meet on its loopback
	ports    []uint16    // where they listen then; nil: from 7900 on
	upload   int64       // bytes per second that each sends at most; 0: no limit
	// serial numbers processes, so that each has a directory of its own.
	serial int
	// image is the file that the seed shares, manifest its digest in the exchange.
	image    string
	manifest agentbox.Digest
	seed     *meshProcess
}

// meshProcess is one of these processes. It answers each order that it gets (meshnode.go).
type meshProcess struct {
	id  identity.PeerID
	dir string
	cmd *exec.Cmd
	// in takes orders and out returns reports, one line each.
	in  io.WriteCloser
	out *bufio.Reader
}

// peer returns machine i's identity in the team.
func (l *MeshLab) peer(i int) identity.PeerID {
	return identity.PeerOf(l.keys[i].Public().(ed25519.PublicKey))
}

// address returns the address on which machine i listens.
func (o *cluster) address(i int) netip.AddrPort {
	local := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	switch {
	case o.ports != nil:
		return netip.AddrPortFrom(local, o.ports[i])
	case o.loopback:
		return netip.AddrPortFrom(local, uint16(7900+i))
	}
	return netip.AddrPortFrom(o.links.Address(i), 7900)
}

// start starts the process of a machine with an empty store, and returns when it is ready. The
// process assumes that holders have everything, and learns of others from them.
func (o *cluster) start(ctx context.Context, i int, holders ...identity.PeerID) (_ *meshProcess, err error) {
	o.serial++
	p := &meshProcess{id: o.l.peer(i), dir: filepath.Join(o.l.dir, fmt.Sprintf("machine-%d-%d", i, o.serial))}
	if err := o.describe(p, i, holders); err != nil {
		return nil, err
	}
	at := i
	if o.loopback {
		at = 0
	}
	if o.links == nil {
		p.cmd = exec.CommandContext(ctx, o.l.cfg.Node, MeshNodeVerb, p.dir)
	} else {
		p.cmd = o.links.Command(ctx, at, o.l.cfg.Node, MeshNodeVerb, p.dir)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stderr, p.out = log, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := p.answer(); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

// describe writes the process's configuration: the team, the addresses of all machines, which a
// member knows after a while, and the holders, from which it learns who has what.
func (o *cluster) describe(p *meshProcess, i int, holders []identity.PeerID) error {
	list, err := o.l.list.Encode()
	if err != nil {
		return err
	}
	cfg := meshNodeConfig{Seed: o.l.keys[i].Seed(), Team: o.l.list.Team(), List: list, Listen: o.address(i).String(), Peers: map[string]netip.AddrPort{}, Holders: holders, Upload: o.upload}
	for other := range o.l.keys {
		if other != i && (o.ports == nil || other < len(o.ports)) {
			cfg.Peers[o.l.peer(other).String()] = o.address(other)
		}
	}
	b, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(p.dir, 0o700), os.WriteFile(filepath.Join(p.dir, "node.json"), b, 0o600))
}

// do gives an order and waits for the answer. Only one order may be under way at a time. It returns
// an error when the order fails or the process has ended.
func (p *meshProcess) do(o meshOrder) (meshReport, error) {
	if err := json.NewEncoder(p.in).Encode(o); err != nil {
		return meshReport{}, p.died(err)
	}
	return p.answer()
}

// answer reads one report.
func (p *meshProcess) answer() (meshReport, error) {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return meshReport{}, p.died(err)
	}
	var r meshReport
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// died is the error of a process that no longer answers, with the last lines of its log.
func (p *meshProcess) died(err error) error {
	b, _ := os.ReadFile(filepath.Join(p.dir, "log"))
	return fmt.Errorf("a machine's process has ended: %w: %.300s", err, b)
}

// kill ends the process with SIGKILL, and removes its directory.
func (p *meshProcess) kill() error {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
	return os.RemoveAll(p.dir)
}

func killAll(all []*meshProcess) error {
	var errs []error
	for _, p := range all {
		errs = append(errs, p.kill())
	}
	return errors.Join(errs...)
}

// newLinks makes a network of n machines with rate bits per second each, 0 for no limit.
func newLinks(ctx context.Context, n int, rate int64) (*netlab.Net, error) {
	l, err := netlab.New(ctx, n, rate)
	if err != nil && os.Geteuid() != 0 {
		return nil, agentbox.AsError(err).WithHint("run build/lab mesh as root; --only 'mesh/simulated-*' needs none")
	}
	return l, err
}

// open makes links and the seed with an image of this size, for the first of several scenarios that
// use them.
func (o *cluster) open(ctx context.Context, machines int, rate, size int64) (err error) {
	if o.links != nil {
		return nil
	}
	if o.image, err = o.l.image(size); err != nil {
		return err
	}
	if o.links, err = newLinks(ctx, machines, rate); err != nil {
		return err
	}
	return o.restartSeed(ctx)
}

// restartSeed starts the seed anew, with the image in its store and, where there are links, the
// baseline's server beside it. No sample includes storing the image.
func (o *cluster) restartSeed(ctx context.Context) error {
	if o.seed != nil {
		if err := o.seed.kill(); err != nil {
			return err
		}
		o.seed = nil
	}
	// It outlives the sample, because the next one uses it.
	seed, err := o.start(context.WithoutCancel(ctx), 0)
	if err != nil {
		return err
	}
	o.seed = seed
	r, err := seed.do(meshOrder{Do: "image", Path: o.image})
	if err != nil {
		return err
	}
	o.manifest = r.Manifest
	if o.links == nil {
		return nil // there is no baseline
	}
	_, err = seed.do(meshOrder{Do: "serve-tcp", Path: o.tcp()})
	return err
}

// tcp returns the address at which the seed serves the baseline.
func (o *cluster) tcp() string { return o.address(0).Addr().String() + ":" + copyPort }

// close ends the seed and removes the links. Calling it again does nothing.
func (o *cluster) close(ctx context.Context) error {
	var errs []error
	if o.seed != nil {
		errs = append(errs, o.seed.kill())
	}
	if o.links != nil {
		errs = append(errs, o.links.Close(ctx))
	}
	o.links, o.seed = nil, nil
	return errors.Join(errs...)
}
