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

// card is the network interface of gVisor's stack: IPv4 packets to and from one neighbour. It has
// no queues. One goroutine reads the link (Stack.read), and any goroutine of gVisor writes to it.
// It implements stack.LinkEndpoint and stack.GSOEndpoint.
type card struct {
	link      vmm.Link
	segmenter vmm.Segmenter  // the same link; nil if it cannot carry long segments
	header    []byte         // of every frame to the guest
	pending   sync.WaitGroup // packets that writeLater is writing

	mu         sync.RWMutex            // guards dispatcher
	dispatcher stack.NetworkDispatcher // gVisor sets and removes it
}

func newCard(link vmm.Link) *card {
	c := &card{link: link, header: ether(etherIPv4)}
	c.segmenter, _ = link.(vmm.Segmenter)
	return c
}

// deliver passes a packet that inspect has accepted to gVisor. It copies the bytes, as gVisor may
// keep them. Checksums are not verified: nothing on the cable changes a byte.
func (c *card) deliver(ip []byte) {
	c.mu.RLock()
	d := c.dispatcher
	c.mu.RUnlock()
	if d == nil {
		return
	}
	p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: splitHeaders(ip)})
	p.RXChecksumValidated = true
	d.DeliverNetworkPacket(header.IPv4ProtocolNumber, p)
	p.DecRef()
}

// splitHeaders copies a packet into a buffer whose headers have a view of their own. When gVisor
// reads the headers of a packet that it has cloned, it copies the whole view that they are in.
func splitHeaders(ip []byte) buffer.Buffer {
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

// answersSYN tells whether p answers a SYN. gVisor writes such packets while it holds the lock of
// the new connection.
func answersSYN(p *stack.PacketBuffer) bool {
	h := header.TCP(p.TransportHeader().Slice())
	return p.TransportProtocolNumber == header.TCPProtocolNumber && len(h) >= header.TCPMinimumSize && h.Flags().Contains(header.TCPFlagSyn)
}

// writeLater writes a packet in a goroutine of its own, so that its writer can release the lock of
// the connection. If the guest answered while the lock is held, a goroutine of gVisor would spin
// for it on a CPU that the guest may need.
func (c *card) writeLater(p *stack.PacketBuffer) {
	p.IncRef()
	c.pending.Go(func() {
		defer p.DecRef()
		_ = c.write(p) // read notices when the cable is cut
	})
}

// write sends one packet. If it is longer than the MTU, which GSOMaxSize allows, the guest's kernel
// cuts it into segments.
func (c *card) write(p *stack.PacketBuffer) error {
	frame := append([][]byte{c.header}, p.AsSlices()...)
	gso := p.GSOOptions
	if c.segmenter == nil || gso.Type == stack.GSONone {
		return c.link.WriteFrame(frame...)
	}
	s := vmm.Segment{Headers: etherLen + p.HeaderSize(), TCP: etherLen + int(gso.L3HdrLen), Checksum: int(gso.CsumOffset)}
	if p.Data().Size() > int(gso.MSS) {
		s.Size = int(gso.MSS)
	}
	return c.segmenter.WriteSegment(s, frame...)
}

// GSOMaxSize implements stack.GSOEndpoint. 0 means no segmentation offload.
func (c *card) GSOMaxSize() uint32 {
	if c.segmenter == nil {
		return 0
	}
	return uint32(c.segmenter.MaxSegment())
}

func (c *card) SupportedGSO() stack.SupportedGSO {
	if c.segmenter == nil {
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

// The rest of stack.LinkEndpoint. gVisor sees no Ethernet headers: card adds and removes them.
// RXChecksumOffload tells gVisor not to verify checksums. gVisor calls Wait when it removes the
// card.
func (c *card) MTU() uint32                      { return uint32(min(c.link.MTU(), protocol.NetworkMTU)) }
func (c *card) SetMTU(uint32)                    {}
func (c *card) MaxHeaderLength() uint16          { return 0 }
func (c *card) LinkAddress() tcpip.LinkAddress   { return tcpip.LinkAddress(gatewayMAC[:]) }
func (c *card) SetLinkAddress(tcpip.LinkAddress) {}
func (c *card) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload
}
func (c *card) Wait()                                   { c.pending.Wait() }
func (c *card) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareNone }
func (c *card) AddHeader(*stack.PacketBuffer)           {}
func (c *card) ParseHeader(*stack.PacketBuffer) bool    { return true }
func (c *card) Close()                                  {}
func (c *card) SetOnCloseAction(func())                 {}

// readFrames handles frames until the cable is cut. It reuses its buffer, so whoever keeps a part
// of a frame has to copy it.
func (s *Stack) readFrames() {
	buf := make([]byte, maxFrame)
	for {
		n, err := s.card.link.ReadFrame(buf)
		switch {
		case errors.Is(err, vmm.ErrLongFrame):
			s.attempts.add(KindFrame, func() string { return fmt.Sprintf("a frame of more than %d bytes", len(buf)) })
		case err != nil:
			return
		default:
			s.handleFrame(buf[:n])
		}
	}
}

// handleFrame handles one frame from the guest. If it is refused, the guest gets an error only
// where a program may wait for an answer.
func (s *Stack) handleFrame(f []byte) {
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
	case classRejected:
		s.attempts.add(kind, func() string { return describe(f) })
		s.send(unreachable(ip, unreachableCode(ip[9])))
	case classDropped:
		s.attempts.add(kind, func() string { return describe(f) })
	case classIgnored:
	}
}

// dhcp answers a DHCP client, which an image may run although the agent has configured the
// interface. A client that renews its lease is answered at its address, any other by broadcast.
func (s *Stack) dhcp(ip []byte) {
	answer := dhcpAnswer(ip[ipLen+udpLen:])
	if answer == nil {
		s.attempts.add(KindPacket, func() string { return "a malformed DHCP message" })
		return
	}
	const server, client = 67, 68
	to := [4]byte{255, 255, 255, 255}
	if [4]byte(ip[12:16]) == guestIP {
		to = guestIP
	}
	s.send(udp(server, client, to, answer))
}

// send writes a frame. read notices when the cable is cut.
func (s *Stack) send(frame []byte) { _ = s.card.link.WriteFrame(frame) }
