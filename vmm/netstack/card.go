package netstack

import (
	"errors"
	"fmt"
	"sync"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"agentbox/vmm"
	"agentbox/vmm/guest/protocol"
)

// card is gVisor's view of the cable: one that carries IPv4 packets to and from its only neighbour.
// Frames are read and written without a queue of their own, by the goroutine that has them. It
// implements stack.LinkEndpoint and stack.GSOEndpoint. Reading is one goroutine's (Stack.read);
// writing is any of gVisor's goroutines'.
type card struct {
	link   vmm.Link
	long   vmm.Segmenter  // the same link; nil when it cannot carry long segments
	header []byte         // of every frame to the guest
	later  sync.WaitGroup // packets that are being written

	// Guards dispatcher, which gVisor sets and takes away.
	mu         sync.RWMutex
	dispatcher stack.NetworkDispatcher
}

// newCard finds out what else the link can do.
func newCard(link vmm.Link) *card {
	c := &card{link: link, header: ether(etherIPv4)}
	c.long, _ = link.(vmm.Segmenter)
	return c
}

// deliver hands a packet from the guest to gVisor. Sums are not verified: nothing on the cable
// changes a byte. The packet must have passed inspect. gVisor may keep it, so its bytes are copied.
func (c *card) deliver(ip []byte) {
	c.mu.RLock()
	d := c.dispatcher
	c.mu.RUnlock()
	if d == nil {
		return
	}
	p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: apart(ip)})
	p.RXChecksumValidated = true
	d.DeliverNetworkPacket(header.IPv4ProtocolNumber, p)
	p.DecRef()
}

// apart is a packet for the stack, its headers in memory of their own: to read them of a packet
// that it has cloned, gVisor copies all the memory they are in.
func apart(ip []byte) buffer.Buffer {
	headers := ipLen + udpLen
	if ip[9] == protoTCP {
		headers = ipLen + int(ip[ipLen+12]>>4)*4
	}
	b := buffer.MakeWithView(buffer.NewViewWithData(ip[:headers]))
	if len(ip) > headers {
		_ = b.Append(buffer.NewViewWithData(ip[headers:]))
	}
	return b
}

func (c *card) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	for i, p := range list.AsSlice() {
		if answersSYN(p) {
			c.writeLater(p)
			continue
		}
		if c.write(p) != nil {
			return i, &tcpip.ErrClosedForSend{}
		}
	}
	return list.Len(), nil
}

// answersSYN tells the packet that gVisor writes while it holds the new connection's lock.
func answersSYN(p *stack.PacketBuffer) bool {
	h := header.TCP(p.TransportHeader().Slice())
	return p.TransportProtocolNumber == header.TCPProtocolNumber && len(h) >= header.TCPMinimumSize && h.Flags().Contains(header.TCPFlagSyn)
}

// writeLater writes a packet when its writer has let go of the connection. A guest that answers
// while the lock is held has a goroutine of gVisor's try for it again and again, on the CPU that
// the guest may need.
func (c *card) writeLater(p *stack.PacketBuffer) {
	p.IncRef()
	c.later.Go(func() {
		defer p.DecRef()
		_ = c.write(p) // when the cable is cut read finds out, too
	})
}

// write sends one packet: as a segment for the guest's kernel to cut when gVisor made one that is
// longer than the MTU, which it does only when GSOMaxSize says so.
func (c *card) write(p *stack.PacketBuffer) error {
	frame := append([][]byte{c.header}, p.AsSlices()...)
	gso := p.GSOOptions
	if c.long == nil || gso.Type == stack.GSONone {
		return c.link.WriteFrame(frame...)
	}
	s := vmm.Segment{Headers: etherLen + p.HeaderSize(), TCP: etherLen + int(gso.L3HdrLen), Checksum: int(gso.CsumOffset)}
	if p.Data().Size() > int(gso.MSS) {
		s.Size = int(gso.MSS)
	}
	return c.long.WriteSegment(s, frame...)
}

// GSOMaxSize implements stack.GSOEndpoint. 0 is no segmentation offload.
func (c *card) GSOMaxSize() uint32 {
	if c.long == nil {
		return 0
	}
	return uint32(c.long.MaxSegment())
}

func (c *card) SupportedGSO() stack.SupportedGSO {
	if c.long == nil {
		return stack.GSONotSupported
	}
	return stack.HostGSOSupported
}

func (c *card) Attach(d stack.NetworkDispatcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dispatcher = d
}

func (c *card) IsAttached() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.dispatcher != nil
}

// The rest of stack.LinkEndpoint: a cable that has no Ethernet header as far as gVisor can see,
// because card writes and removes it. RXChecksumOffload tells gVisor not to verify. Wait is called
// when the card is removed.
func (c *card) MTU() uint32                      { return uint32(min(c.link.MTU(), protocol.NetworkMTU)) }
func (c *card) SetMTU(uint32)                    {}
func (c *card) MaxHeaderLength() uint16          { return 0 }
func (c *card) LinkAddress() tcpip.LinkAddress   { return tcpip.LinkAddress(gatewayMAC[:]) }
func (c *card) SetLinkAddress(tcpip.LinkAddress) {}
func (c *card) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload
}
func (c *card) Wait()                                   { c.later.Wait() }
func (c *card) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareNone }
func (c *card) AddHeader(*stack.PacketBuffer)           {}
func (c *card) ParseHeader(*stack.PacketBuffer) bool    { return true }
func (c *card) Close()                                  {}
func (c *card) SetOnCloseAction(func())                 {}

// read handles frames until the cable is cut. It is one of Stack.work. buf is used again for the
// next frame, so what is kept of it has to be copied.
func (s *Stack) read() {
	buf := make([]byte, maxFrame)
	for {
		n, err := s.card.link.ReadFrame(buf)
		switch {
		case errors.Is(err, vmm.ErrLongFrame):
			s.attempts.add(KindFrame, func() string { return fmt.Sprintf("a frame of more than %d bytes", len(buf)) })
		case err != nil:
			return
		default:
			s.frame(buf[:n])
		}
	}
}

// frame handles one frame from the guest. Only what programs may wait for an answer to is answered
// with an error; everything else that is refused gets silence.
func (s *Stack) frame(f []byte) {
	c, kind, ip := inspect(f)
	switch c {
	case classTransport:
		s.card.deliver(ip)
	case classARP:
		s.send(arpAnswer(f))
	case classPing:
		s.send(pingAnswer(ip))
	case classDHCP:
		s.dhcp(ip)
	case classStray:
		s.attempts.add(kind, func() string { return describe(f) })
		s.send(unreachable(ip, strayCode(ip[9])))
	case classRefused:
		s.attempts.add(kind, func() string { return describe(f) })
	case classIgnored:
	}
}

// dhcp answers a client that asks although the agent has configured the card. A client that renews
// has its address and is answered there, any other by broadcast.
func (s *Stack) dhcp(ip []byte) {
	answer := dhcpAnswer(ip[ipLen+udpLen:])
	if answer == nil {
		s.attempts.add(KindPacket, func() string { return "a malformed DHCP message" })
		return
	}
	const server, client = 67, 68
	to := [4]byte{255, 255, 255, 255}
	if [4]byte(ip[12:16]) == guestIP { // renewing
		to = guestIP
	}
	s.send(udp(server, client, to, answer))
}

// send writes a whole frame. When the cable is cut read finds out, too.
func (s *Stack) send(frame []byte) { _ = s.card.link.WriteFrame(frame) }
