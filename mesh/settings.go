package mesh

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/durable"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// DefaultListen is where a node listens without a setting. If the port is taken, say by another
// home of this machine, it takes any.
const DefaultListen = ":7946"

// settings is settings.json. Only this machine's user changes it, through Init and Join.
type settings struct {
	Listen string `json:"listen"` // UDP address, with the port that was used last
}

func (m *Mesh) settingsFile() string  { return filepath.Join(m.cfg.Dir, "settings.json") }
func (m *Mesh) addressesFile() string { return filepath.Join(m.cfg.Dir, "addresses.json") }

// readJSON reads a file into v, which stays as it is when there is no file.
func readJSON(path string, v any) error {
	if err := durable.ReadJSON(path, v); err != nil {
		return agentbox.Classify(agentbox.Corrupt, "%w", err).WithHint("remove it")
	}
	return nil
}

// configure sets where to listen, from the next begin on; "" changes nothing.
func (m *Mesh) configure(listen string) error {
	if listen == "" {
		return nil
	}
	if _, err := net.ResolveUDPAddr("udp", listen); err != nil {
		return agentbox.Errorf(agentbox.Invalid, "%q is not an address to listen on", listen).WithHint("as :7946 or 192.0.2.7:7946; port 0 is any")
	}
	return durable.WriteJSON(m.settingsFile(), settings{Listen: listen}, 0o600)
}

// listen opens the node, and keeps its port for the next time: others remember it, and a firewall
// may have a rule for it. A port that is taken is no reason to stay away from the team.
func (m *Mesh) listen() (*wire.Node, error) {
	s := settings{Listen: DefaultListen}
	if err := readJSON(m.settingsFile(), &s); err != nil {
		return nil, err
	}
	node, err := wire.Listen(wire.Config{Key: m.cfg.Key, Listen: s.Listen, Log: m.cfg.Log, Learned: m.learned.Notify})
	host, _, splitErr := net.SplitHostPort(s.Listen)
	if errors.Is(err, syscall.EADDRINUSE) && splitErr == nil {
		m.cfg.Log.Warn("mesh: the port is taken, listening on any", "listen", s.Listen)
		node, err = wire.Listen(wire.Config{Key: m.cfg.Key, Listen: net.JoinHostPort(host, "0"), Log: m.cfg.Log, Learned: m.learned.Notify})
	}
	if err != nil {
		return nil, err
	}
	used := net.JoinHostPort(host, strconv.Itoa(int(node.Addr().Port())))
	if used == s.Listen {
		return node, nil
	}
	if err := durable.WriteJSON(m.settingsFile(), settings{Listen: used}, 0o600); err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return node, nil
}

// loadAddresses gives a node the addresses at which members were seen before. A file that cannot be
// read costs only a search.
func (m *Mesh) loadAddresses(node *wire.Node) {
	known := map[identity.PeerID][]netip.AddrPort{}
	if err := readJSON(m.addressesFile(), &known); err != nil {
		m.cfg.Log.Warn("mesh: the stored addresses of members cannot be read", "error", err)
	}
	for id, addresses := range known {
		node.AddAddresses(id, addresses...)
	}
}

// savePause is between two times that addresses are written because there are others: a member may announce
// any, as often as it likes.
const savePause = time.Second

// rememberAddresses writes where members are as soon as that is learned, until ctx is done. Two machines that
// are killed together, each of which has forgotten where the other is, may never meet again.
func (m *Mesh) rememberAddresses(ctx context.Context, r *running) {
	for {
		select {
		case <-m.learned:
			m.saveAddresses(r.node)
		case <-ctx.Done():
			return
		}
		background.Sleep(ctx, savePause)
	}
}

func (m *Mesh) saveAddresses(node *wire.Node) {
	m.saving.Lock()
	defer m.saving.Unlock()
	known := map[identity.PeerID][]netip.AddrPort{}
	for _, member := range m.roster.List().Members() {
		if a := node.Addresses(member.ID); len(a) > 0 {
			known[member.ID] = a
		}
	}
	if err := durable.WriteJSON(m.addressesFile(), known, 0o600); err != nil {
		m.cfg.Log.Warn("mesh: store the addresses of members", "error", err)
	}
}
