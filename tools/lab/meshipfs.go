package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ipfsDistributor is a private network of IPFS daemons, each connected to all others and to nobody
// else. There is no DHT: a daemon asks these neighbours who has what.
type ipfsDistributor struct {
	o       *cluster
	program string
	dir     string
	// daemons is indexed by machine.
	daemons []*server
	// cid names the image as IPFS has added it.
	cid string
}

// openIPFS starts a daemon on each machine and has the first one add the image.
func openIPFS(ctx context.Context, o *cluster, program string, machines int) (_ distributor, err error) {
	g := &ipfsDistributor{o: o, program: program}
	if g.dir, err = o.peerDir("ipfs"); err != nil {
		return nil, err
	}
	if err = g.open(ctx, machines); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// open makes the repositories and daemons, waits until each is connected to all others, and adds
// the image.
func (g *ipfsDistributor) open(ctx context.Context, machines int) (err error) {
	var others []any
	for i := range machines {
		if _, _, err := g.ipfs(ctx, i, "init", "--empty-repo"); err != nil {
			return err
		}
		id, err := g.configure(i, others)
		if err != nil {
			return err
		}
		others = append(others, map[string]any{"ID": id, "Addrs": []string{g.address(i)}})
		d, err := g.o.serve(ctx, i, g.dir, g.environ(i), true, g.program, "daemon")
		if err != nil {
			return err
		}
		g.daemons = append(g.daemons, d)
	}
	for i, d := range g.daemons {
		if err := d.waitForOutput("Daemon is ready"); err != nil {
			return fmt.Errorf("ipfs of machine %d: %w", i, err)
		}
	}
	for i := range machines {
		// Before the image is added: otherwise the samples would include finding each other.
		if err := retryUntil(ctx, func() error { return g.meets(ctx, i, machines-1) }); err != nil {
			return err
		}
	}
	g.cid, _, err = g.ipfs(ctx, 0, "add", "--quieter", g.o.image)
	return err
}

// meets returns an error unless a machine is connected to that many others.
func (g *ipfsDistributor) meets(ctx context.Context, i, others int) error {
	out, _, err := g.ipfs(ctx, i, "swarm", "peers")
	if n := len(strings.Fields(out)); err == nil && n != others {
		err = fmt.Errorf("ipfs of machine %d is connected to %d of %d others", i, n, others)
	}
	return err
}

// address returns the address of a machine's daemon, in IPFS's notation.
func (g *ipfsDistributor) address(i int) string {
	return "/ip4/" + g.o.address(i).Addr().String() + "/tcp/4001"
}

// configure makes a repository that is connected to others and knows nobody else. It returns its
// PeerID.
func (g *ipfsDistributor) configure(i int, others []any) (id string, err error) {
	file := filepath.Join(g.repo(i), "config")
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var cfg map[string]any
	if err := json.Unmarshal(b, &cfg); err != nil {
		return "", err
	}
	change := func(section string, values map[string]any) map[string]any {
		s, _ := cfg[section].(map[string]any)
		if s == nil {
			s = map[string]any{}
		}
		maps.Copy(s, values)
		cfg[section] = s
		return s
	}
	// Nothing but the machines that are named: no bootstrap node, no discovery, no routing, no
	// certificates from outside.
	cfg["Bootstrap"] = []string{}
	change("Addresses", map[string]any{"Swarm": []string{g.address(i)}, "API": "/ip4/127.0.0.1/tcp/5001", "Gateway": []string{}})
	change("Peering", map[string]any{"Peers": others})
	change("Discovery", map[string]any{"MDNS": map[string]any{"Enabled": false}})
	change("Routing", map[string]any{"Type": "none"})
	change("AutoTLS", map[string]any{"Enabled": false})
	change("Swarm", map[string]any{"DisableNatPortMap": true})
	id, _ = change("Identity", nil)["PeerID"].(string)
	if b, err = json.Marshal(cfg); err != nil {
		return "", err
	}
	return id, os.WriteFile(file, b, 0o600)
}

// repo returns the directory of a machine's repository.
func (g *ipfsDistributor) repo(i int) string { return filepath.Join(g.dir, fmt.Sprint("repo-", i)) }

// environ returns the environment of IPFS on a machine: its repository, and no telemetry.
func (g *ipfsDistributor) environ(i int) []string {
	return []string{"IPFS_PATH=" + g.repo(i), "IPFS_TELEMETRY=off"}
}

// ipfs runs IPFS's command line on a machine, with that machine's repository, and returns its
// output and the time it took.
func (g *ipfsDistributor) ipfs(ctx context.Context, i int, args ...string) (string, time.Duration, error) {
	return g.o.run(ctx, i, g.environ(i), g.program, args...)
}

// get pins the image, which fetches and verifies all of it. The time includes the start of IPFS's
// command line, as there is no other way to ask.
func (g *ipfsDistributor) get(ctx context.Context, i int) (time.Duration, error) {
	_, took, err := g.ipfs(ctx, i, "pin", "add", "--progress=false", g.cid)
	return took, err
}

func (g *ipfsDistributor) close() error {
	var errs []error
	for _, d := range g.daemons {
		errs = append(errs, d.close())
	}
	return errors.Join(append(errs, os.RemoveAll(g.dir))...)
}
