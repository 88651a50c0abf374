package bench

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
	"agentbox/mesh/identity"
	"agentbox/mesh/netlab"
)

// MeshLab is where the exchange between machines is measured: real processes, each in a network
// namespace of its own, joined by links of a known rate. Everything is in one directory, and in
// namespaces that are named after this process. A process is a store and its part in the exchange,
// without a daemon: what boxes do beside it is measured in mesh/cold-box. It needs root, but for
// what is simulated.
type MeshLab struct {
	cfg MeshConfig
	dir string
	// team is the root key, keys are the machines'; list is the member list that all of them have.
	team ed25519.PrivateKey
	keys []ed25519.PrivateKey
	list identity.List

	missing []Missing // of the scenarios that Scenarios gave last
}

// MeshConfig is what a MeshLab needs. Sizes are multiples of a block (blob.BlockSize).
type MeshConfig struct {
	Dir    string // where to work
	Binary string // the program to measure
	Large  int64  // bytes of the image that goes from one to one
	Small  int64  // bytes of that which goes to many
	// Peers has other programs measured beside us, too.
	Peers    bool
	Tools    string // where they are looked for first; "": where programs are
	Progress agentbox.Progress
}

// meshMachines is how many machines there are at most, one with the image among them.
const meshMachines = 16

// OpenMeshLab makes a team: keys and a member list, and nothing that runs. Links and machines are
// for the scenarios. The caller closes it.
func OpenMeshLab(cfg MeshConfig) (*MeshLab, error) {
	dir, err := os.MkdirTemp(cfg.Dir, labPrefix+"mesh-")
	if err != nil {
		return nil, err
	}
	l := &MeshLab{cfg: cfg, dir: dir}
	if err := l.found(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// found makes keys and a member list of as many machines as there may be, for all clusters of the
// lab.
func (l *MeshLab) found() error {
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

// Missing lists what Scenarios left out for want of a program, as far as one of the patterns means
// it.
func (l *MeshLab) Missing(patterns []string) []Missing {
	return slices.DeleteFunc(slices.Clone(l.missing), func(m Missing) bool {
		ok, _ := matches(m.Name, patterns) // Select says which is no pattern
		return !ok
	})
}

// image makes a file of random bytes, once for each size: nothing of it compresses, or is there
// twice.
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

// cluster is a team at work: links and the processes at them. Machine 0 is the seed, which has the
// image; the others begin with empty stores.
type cluster struct {
	l        *MeshLab
	links    *netlab.Net // nil: all processes are on this machine, and loopback is set
	loopback bool        // all processes are on machine 0, and meet on its loopback
	ports    []uint16    // where they listen then; nil: from 7900 on
	upload   int64       // bytes a second that each sends at most; 0: no bound
	// serial numbers processes, so that each has a directory of its own.
	serial int
	// image is the file that the seed shares, manifest what it is called in the exchange.
	image    string
	manifest agentbox.Digest
	seed     *meshProcess
}

// meshProcess is one of these processes, which is given orders and answers each (meshnode.go).
type meshProcess struct {
	id  identity.PeerID
	dir string
	cmd *exec.Cmd
	// in takes orders, out gives reports, one line each.
	in  io.WriteCloser
	out *bufio.Reader
}

// peer is machine i's name in the team.
func (l *MeshLab) peer(i int) identity.PeerID {
	return identity.PeerOf(l.keys[i].Public().(ed25519.PublicKey))
}

// address is where machine i listens.
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

// start starts the process of a machine with an empty store, and returns when it is ready. holders
// are those that it takes for having everything; it hears of others from them.
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
		p.cmd = exec.CommandContext(ctx, o.l.cfg.Binary, "bench", MeshNodeVerb, p.dir)
	} else {
		p.cmd = o.links.Command(ctx, at, o.l.cfg.Binary, "bench", MeshNodeVerb, p.dir)
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

// describe writes what the process is told: the team, where the others are, and who has the image.
// It knows the addresses of all, as a member does after a while; who has what it learns from the
// holders.
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

// do gives an order and waits for the answer. One order is under way at a time. An order that
// failed is an error, and so is a process that has ended.
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

// died is the error of a process that does not answer any more, with what it said last.
func (p *meshProcess) died(err error) error {
	b, _ := os.ReadFile(filepath.Join(p.dir, "log"))
	return fmt.Errorf("a machine's process has ended: %w: %.300s", err, b)
}

// kill ends the process as by SIGKILL, and removes what it had.
func (p *meshProcess) kill() error {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
	return os.RemoveAll(p.dir)
}

// killAll kills processes.
func killAll(all []*meshProcess) error {
	var errs []error
	for _, p := range all {
		errs = append(errs, p.kill())
	}
	return errors.Join(errs...)
}

// newLinks makes a network of n machines with rate bits a second each, 0 for as fast as it goes.
func newLinks(ctx context.Context, n int, rate int64) (*netlab.Net, error) {
	l, err := netlab.New(ctx, n, rate)
	if err != nil && os.Geteuid() != 0 {
		return nil, agentbox.AsError(err).WithHint("run agentbox bench mesh as root; --only 'mesh/simulated-*' needs none")
	}
	return l, err
}

// open makes links, and the machine that has an image of this size, for the first scenario of
// several that use them.
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
	return o.plant(ctx)
}

// plant starts the seed anew, with the image in its store and, where there are links, the
// baseline's server beside it. Storing the image is no part of any sample.
func (o *cluster) plant(ctx context.Context) error {
	if o.seed != nil {
		if err := o.seed.kill(); err != nil {
			return err
		}
		o.seed = nil
	}
	// It outlives the sample: the next one uses it.
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

// tcp is where the seed serves the baseline.
func (o *cluster) tcp() string { return o.address(0).Addr().String() + ":" + copyPort }

// close ends the seed and removes the links; the second time there is nothing.
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
