package lan

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"agentbox/agentbox"
)

// Bounds of what is read of a packet, in bytes and in records: what fits into a frame of Ethernet,
// and more than any of ours has.
const (
	maxPacket  = 1500
	maxEntries = 32
)

// ttl is how long others may remember an announcement, in seconds. We do not remember any.
const ttl = 120

// Service is the name under which members of a team announce themselves, ending in a dot. Only a
// machine that knows the root key can tell which team it is of; others see that two machines are of
// the same one. Six bytes of the hash keep the teams of one network apart.
func Service(root []byte) string {
	tag := sha256.Sum256(append([]byte("agentbox mdns 1\n"), root...))
	return "_ab" + hex.EncodeToString(tag[:6]) + "._udp.local."
}

// heard is what a packet says of a service.
type heard struct {
	asked bool // who is there?
	peers []announcement
}

// announcement says that somebody is there.
type announcement struct {
	instance string // the first label of its name
	port     uint16
}

// question asks who is there.
func question(service string) ([]byte, error) {
	name, err := dnsmessage.NewName(service)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Internal, "mdns: %q: %w", service, err)
	}
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET}}}
	return m.Pack()
}

// answer says that an instance is there, which listens on a port. There is no record of an address:
// the one that the packet comes from is it.
func answer(service string, a announcement) ([]byte, error) {
	of, err := dnsmessage.NewName(service)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Internal, "mdns: %q: %w", service, err)
	}
	instance, err := dnsmessage.NewName(a.instance + "." + service)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Internal, "mdns: %q: %w", a.instance, err)
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

// read tells what a packet says of a service. Anything else in it, and what is no DNS, is passed
// over: port 5353 is shared with printers, televisions and everything else that announces itself.
func read(packet []byte, service string) heard {
	var p dnsmessage.Parser
	h, err := p.Start(packet)
	if err != nil || h.OpCode != 0 || h.RCode != dnsmessage.RCodeSuccess {
		return heard{}
	}
	if !h.Response {
		return heard{asked: asks(&p, service)}
	}
	if p.SkipAllQuestions() != nil {
		return heard{}
	}
	return heard{peers: answers(&p, service)}
}

// asks tells whether a question is about the service.
func asks(p *dnsmessage.Parser, service string) bool {
	for range maxEntries {
		q, err := p.Question()
		if err != nil {
			return false
		}
		if strings.EqualFold(q.Name.String(), service) && (q.Type == dnsmessage.TypePTR || q.Type == dnsmessage.TypeALL) {
			return true
		}
	}
	return false
}

// answers are the instances of the service that a packet names, but for those that say goodbye (a
// TTL of 0).
func answers(p *dnsmessage.Parser, service string) []announcement {
	var out []announcement
	for range maxEntries {
		h, err := p.AnswerHeader()
		if err != nil {
			break
		}
		instance, ours := cutService(h.Name.String(), service)
		if h.Type != dnsmessage.TypeSRV || !ours {
			if p.SkipAnswer() != nil {
				break
			}
			continue
		}
		srv, err := p.SRVResource()
		if err != nil {
			break
		}
		if srv.Port != 0 && h.TTL != 0 {
			out = append(out, announcement{instance, srv.Port})
		}
	}
	return out
}

// cutService gives the label before a service's name.
func cutService(name, service string) (instance string, ok bool) {
	if len(name) <= len(service)+1 || !strings.EqualFold(name[len(name)-len(service):], service) {
		return "", false
	}
	instance, dot := strings.CutSuffix(name[:len(name)-len(service)], ".")
	return instance, dot && !strings.Contains(instance, ".")
}
