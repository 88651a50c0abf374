package lan

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"agentbox/agentbox"
)

// Bounds of a packet that is read, in bytes and in records: an Ethernet frame, and more records
// than any of ours has.
const (
	maxPacket  = 1500
	maxEntries = 32
)

// ttl is how long others may remember an announcement, in seconds. We do not remember any.
const ttl = 120

// Service is the name under which members of a team announce themselves, ending in a dot. Only a
// machine that knows the root key can tell which team it is; others see that two machines are of
// the same team. Six bytes of the hash tell the teams of one network apart.
func Service(root []byte) string {
	tag := sha256.Sum256(append([]byte("agentbox mdns 1\n"), root...))
	return "_ab" + hex.EncodeToString(tag[:6]) + "._udp.local."
}

// parsed is what a packet says about a service.
type parsed struct {
	asked bool // who is there?
	peers []announcement
}

// announcement says that a member is there.
type announcement struct {
	instance string // the first label of its name
	port     uint16
}

func question(service string) ([]byte, error) {
	name, err := dnsmessage.NewName(service)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Internal, "mdns: %q: %w", service, err)
	}
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET}}}
	return m.Pack()
}

// answer announces an instance that listens on a port. It has no address record: the source of the
// packet is the address.
func answer(service string, a announcement) ([]byte, error) {
	of, err := dnsmessage.NewName(service)
	instance, nameErr := dnsmessage.NewName(a.instance + "." + service)
	if err = errors.Join(err, nameErr); err != nil {
		return nil, agentbox.Errorf(agentbox.Internal, "mdns: %q of %q: %w", a.instance, service, err)
	}
	head := func(name dnsmessage.Name) dnsmessage.ResourceHeader {
		return dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: ttl}
	}
	m := dnsmessage.Message{
		Header: dnsmessage.Header{Response: true, Authoritative: true},
		Answers: []dnsmessage.Resource{
			{Header: head(of), Body: &dnsmessage.PTRResource{PTR: instance}},
			{Header: head(instance), Body: &dnsmessage.SRVResource{Port: a.port, Target: instance}},
		},
	}
	return m.Pack()
}

// parse reads what a packet says about a service. It skips anything else, and what is no DNS: port
// 5353 is shared with printers, televisions and everything else that announces itself.
// Announcements with a TTL of 0 say goodbye.
func parse(packet []byte, service string) (h parsed) {
	var m dnsmessage.Message
	if m.Unpack(packet) != nil || m.OpCode != 0 || m.RCode != dnsmessage.RCodeSuccess {
		return parsed{}
	}
	if !m.Response {
		h.asked = slices.ContainsFunc(m.Questions, func(q dnsmessage.Question) bool {
			return strings.EqualFold(q.Name.String(), service) && (q.Type == dnsmessage.TypePTR || q.Type == dnsmessage.TypeALL)
		})
		return h
	}
	for _, r := range m.Answers[:min(len(m.Answers), maxEntries)] {
		instance, ours := cutService(r.Header.Name.String(), service)
		srv, ok := r.Body.(*dnsmessage.SRVResource)
		if ok && ours && srv.Port != 0 && r.Header.TTL != 0 {
			h.peers = append(h.peers, announcement{instance, srv.Port})
		}
	}
	return h
}

// cutService returns the label before a service's name.
func cutService(name, service string) (instance string, ok bool) {
	instance, rest, _ := strings.Cut(name, ".")
	return instance, instance != "" && strings.EqualFold(rest, service)
}
