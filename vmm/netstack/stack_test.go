package netstack

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
)

var (
	remoteAddr = netip.MustParseAddrPort("203.0.113.7:443")
	dnsServer  = netip.AddrPortFrom(netip.AddrFrom4(gatewayIP), dnsPort)
)

// ask sends a question over UDP and returns the answer.
func ask(t *testing.T, b *box, name string, kind dnsmessage.Type) dnsmessage.Message {
	t.Helper()
	c := b.dialUDP(t, dnsServer)
	if _, err := c.Write(question(t, name, kind)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2048)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, buf[:n])
}

func question(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	n, err := dnsmessage.NewName(name)
	if err != nil {
		t.Fatal(err)
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: n, Type: kind, Class: dnsmessage.ClassINET}}}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse(t testing.TB, b []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestNamesAreSynthetic(t *testing.T) {
	var mu sync.Mutex
	var asked []Question
	p := &policy{lookup: func(q Question) error {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, q)
		if strings.HasSuffix(q.Name, "allowed.example") {
			return nil
		}
		return errRefused
	}}
	b, s := startBox(t, p, maxStreams, maxFlows)
	a := ask(t, b, "Allowed.Example.", dnsmessage.TypeA)
	if a.RCode != dnsmessage.RCodeSuccess || len(a.Answers) != 1 {
		t.Fatalf("an allowed name is answered with %v", a)
	}
	addr := netip.AddrFrom4(a.Answers[0].Body.(*dnsmessage.AResource).A)
	if s.names.nameOf(addr) != "allowed.example" {
		t.Errorf("%s is the address of %q", addr, s.names.nameOf(addr))
	}
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeTXT, dnsmessage.TypeMX, 10, 65} {
		if a := ask(t, b, "allowed.example.", kind); a.RCode != dnsmessage.RCodeSuccess || len(a.Answers) != 0 {
			t.Errorf("type %d of an allowed name is answered with %v", kind, a)
		}
	}
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeTXT, 10} {
		if a := ask(t, b, "c2VjcmV0.denied.example.", kind); a.RCode != dnsmessage.RCodeNameError || len(a.Answers) != 0 {
			t.Errorf("type %d of a denied name is answered with %v", kind, a)
		}
	}
	back, err := reverseName(addr)
	if err != nil {
		t.Fatal(err)
	}
	if a := ask(t, b, back, dnsmessage.TypePTR); len(a.Answers) != 1 || a.Answers[0].Body.(*dnsmessage.PTRResource).PTR.String() != "allowed.example." {
		t.Errorf("%s is answered with %v", back, a)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 9 || asked[0] != (Question{"allowed.example", 1}) {
		t.Errorf("the policy was asked %v", asked)
	}
}

func reverseName(a netip.Addr) (string, error) {
	b := a.As4()
	if !a.Is4() {
		return "", errors.New("not IPv4")
	}
	return netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]}).String() + ".in-addr.arpa.", nil
}

func TestDNSOverTCP(t *testing.T) {
	b, _ := startBox(t, (&policy{}).allowAll(), maxStreams, maxFlows)
	c, err := b.dial(t, dnsServer)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		q := question(t, "allowed.example.", dnsmessage.TypeA)
		if _, err := c.Write(append([]byte{0, byte(len(q))}, q...)); err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 2)
		if _, err := io.ReadFull(c, head); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, int(head[0])<<8|int(head[1]))
		if _, err := io.ReadFull(c, body); err != nil {
			t.Fatal(err)
		}
		if a := parse(t, body); len(a.Answers) != 1 {
			t.Errorf("answered with %v", a)
		}
	}
}

func TestStreamCarriesBytesBothWays(t *testing.T) {
	var got Destination
	p := (&policy{}).allowAll()
	p.stream = func(_ context.Context, d Destination, c Conn) error {
		got = d
		_, err := io.Copy(c, c)
		return err
	}
	b, _ := startBox(t, p, maxStreams, maxFlows)
	a := ask(t, b, "echo.example.", dnsmessage.TypeA)
	to := netip.AddrPortFrom(netip.AddrFrom4(a.Answers[0].Body.(*dnsmessage.AResource).A), 443)
	c, err := b.dial(t, to)
	if err != nil {
		t.Fatal(err)
	}
	sent := make([]byte, 8<<20)
	if _, err := rand.Read(sent); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		if _, err := c.Write(sent); err != nil {
			t.Error(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
	})
	back, err := io.ReadAll(c)
	work.Wait()
	if err != nil || !bytes.Equal(back, sent) {
		t.Errorf("sent %d bytes, got %d back (%v)", len(sent), len(back), err)
	}
	if want := (Destination{"tcp", "echo.example", to}); got != want {
		t.Errorf("the policy saw %+v, not %+v", got, want)
	}
}

func TestHalfClose(t *testing.T) {
	p := (&policy{}).allowAll()
	p.stream = func(_ context.Context, _ Destination, c Conn) error {
		if _, err := c.Write([]byte("all there is")); err != nil {
			return err
		}
		if err := c.CloseWrite(); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, c) // the guest goes on for a while
		return err
	}
	b, _ := startBox(t, p, maxStreams, maxFlows)
	c, err := b.dial(t, remoteAddr)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "all there is" {
		t.Fatalf("read %q (%v)", got, err)
	}
	if _, err := c.Write([]byte("still talking")); err != nil {
		t.Error(err)
	}
}

func wantRefused(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the connection is not refused but %v", err)
	}
}

func TestRefusalIsImmediate(t *testing.T) {
	b, _ := startBox(t, &policy{}, maxStreams, maxFlows)
	_, err := b.dial(t, remoteAddr)
	wantRefused(t, err)
	wantNobody(t, b.dialUDP(t, remoteAddr))
}

// What can be no address of anybody is refused as fast, though no answer can come from there.
func TestUnroutableIsRefused(t *testing.T) {
	b, _ := startBox(t, (&policy{}).allowAll(), maxStreams, maxFlows)
	for _, address := range []string{"224.0.0.1:80", "240.0.0.1:80", "255.255.255.255:80"} {
		to := netip.MustParseAddrPort(address)
		var failed net.Error
		if c, err := b.dial(t, to); err == nil || errors.As(err, &failed) && failed.Timeout() {
			t.Errorf("a connection to %s: %v, %v", to, c, err)
		}
	}
	wantNobody(t, b.dialUDP(t, netip.MustParseAddrPort("240.0.0.1:53")))
}

// wantNobody sends a datagram and waits for the answer that nobody listens. The guest's Read does
// not wake up for it.
func wantNobody(t *testing.T, c *gonet.UDPConn) {
	t.Helper()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(limit); ; {
		if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err := c.Read(make([]byte, 10))
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() && time.Now().Before(end) {
			continue
		}
		wantRefused(t, err)
		return
	}
}

func TestDialFirst(t *testing.T) {
	p := (&policy{}).allowAll()
	p.stream = func(context.Context, Destination, Conn) error { return errors.New("nobody listens there") }
	b, _ := startBox(t, p, maxStreams, maxFlows)
	_, err := b.dial(t, remoteAddr)
	wantRefused(t, err)
}

func TestErrorResetsAStream(t *testing.T) {
	p := (&policy{}).allowAll()
	p.stream = func(_ context.Context, _ Destination, c Conn) error {
		if _, err := c.Read(make([]byte, 1)); err != nil {
			return err
		}
		return errors.New("the other side broke off")
	}
	b, _ := startBox(t, p, maxStreams, maxFlows)
	c, err := b.dial(t, remoteAddr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("reading says %v", err)
	}
}

func TestPacketBoundariesAreKept(t *testing.T) {
	p := (&policy{}).allowAll()
	p.packets = func(_ context.Context, _ Destination, c net.Conn) error {
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return err
			}
			if _, err := c.Write(buf[:n]); err != nil {
				return err
			}
		}
	}
	b, _ := startBox(t, p, maxStreams, maxFlows)
	c := b.dialUDP(t, remoteAddr)
	for _, size := range []int{1, 0, 1400, 9000, 60000} {
		sent := bytes.Repeat([]byte{byte(size)}, size)
		if _, err := c.Write(sent); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64<<10)
		if n, err := c.Read(buf); err != nil || !bytes.Equal(buf[:n], sent) {
			t.Errorf("a datagram of %d bytes comes back with %d (%v)", size, n, err)
		}
	}
}

// holdOpen is a handler that keeps what it was given until the stack is closed.
func holdOpen(ctx context.Context, _ Destination, c Conn) error {
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestConnectionsAreBounded(t *testing.T) {
	const most = 8
	p := (&policy{}).allowAll()
	p.stream = holdOpen
	p.packets = func(ctx context.Context, _ Destination, _ net.Conn) error {
		<-ctx.Done()
		return ctx.Err()
	}
	b, _ := startBox(t, p, most, most)
	for i := range most {
		if _, err := b.dial(t, remoteAddr); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	_, err := b.dial(t, remoteAddr)
	wantRefused(t, err)
	if a := p.awaitAttempt(t, KindLimit); !strings.Contains(a.Detail, "limit of 8") {
		t.Errorf("the attempt says %q", a.Detail)
	}
	for range most {
		if _, err := b.dialUDP(t, remoteAddr).Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	wantNobody(t, b.dialUDP(t, remoteAddr))
}

// A slot is free as soon as its connection is over, so there is no limit to short ones that follow
// each other.
func TestSlotsAreFreed(t *testing.T) {
	p := (&policy{}).allowAll()
	p.stream = func(_ context.Context, _ Destination, c Conn) error {
		_, err := io.Copy(c, c)
		return err
	}
	b, s := startBox(t, p, 4, maxFlows)
	for i := range 100 {
		c, err := b.dial(t, remoteAddr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		awaitOpen(t, s, 3)
	}
}

// awaitOpen waits until no more connections than most are open.
func awaitOpen(t *testing.T, s *Stack, most int) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		s.streams.mu.Lock()
		n := len(s.streams.taken)
		s.streams.mu.Unlock()
		if n <= most {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d connections are open", n)
		}
	}
}

func TestCloseEndsEverything(t *testing.T) {
	p := (&policy{}).allowAll()
	p.stream = holdOpen
	p.packets = discard
	b, s := startBox(t, p, maxStreams, maxFlows)
	for range 5 {
		c, err := b.dial(t, remoteAddr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := b.dialUDP(t, remoteAddr).Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(limit):
		t.Fatal("the stack does not close")
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// staleClient is a guest with a connection that goes on under another stack, as after a pause or a
// fork.
func staleClient(t *testing.T) (*gonet.TCPConn, *Stack) {
	t.Helper()
	p := (&policy{}).allowAll()
	p.stream = holdOpen
	first, old := startStack(t, p, maxStreams, maxFlows)
	b := plugIn(t, old)
	c, err := b.dial(t, remoteAddr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	b.unplug() // with no goodbye: the machine was saved
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, next := startStack(t, p, maxStreams, maxFlows)
	b.plug(next)
	return c, second
}

func TestNewStackResetsOldConnections(t *testing.T) {
	c, _ := staleClient(t)
	if _, err := c.Write([]byte("still there?")); err != nil {
		t.Fatal(err)
	}
	wantReset(t, c)
}

// Who only waits for data is told, too.
func TestResetStaleWakesReader(t *testing.T) {
	c, s := staleClient(t)
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.ResetStale(local.Port(), remoteAddr)
	wantReset(t, c)
}

func wantReset(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("reading says %v", err)
	}
}

// A flood of connections that the guest never finishes takes no more than there is, and the rest
// goes on.
func TestSYNFlood(t *testing.T) {
	const most, flood = 32, 4000
	p := (&policy{}).allowAll()
	p.stream = holdOpen
	s, c := startStack(t, p, most, maxFlows)
	pinged := make(chan struct{})
	go func() {
		for {
			select {
			case f := <-c.toGuest:
				if ip := f[etherLen:]; len(ip) > ipLen && ip[9] == protoICMP {
					close(pinged)
				}
			case <-c.cut:
				return
			}
		}
	}()
	for i := range flood {
		c.send(t, syn("203.0.113.7", 443, func(ip []byte) {
			binary.BigEndian.PutUint16(ip[ipLen:], uint16(1024+i))
			binary.BigEndian.PutUint32(ip[ipLen+4:], uint32(i))
		}))
	}
	c.send(t, packet("198.18.0.1", protoICMP, echo, nil))
	select {
	case <-pinged:
	case <-time.After(limit):
		t.Fatal("a ping is not answered")
	}
	p.awaitAttempt(t, KindLimit)
	awaitOpen(t, s, most)
}

// discard reads datagrams until the flow is over.
func discard(_ context.Context, _ Destination, c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	return err
}

// stuck is a cable that takes no answer to a SYN before it is let go.
type stuck struct {
	*cable
	once           sync.Once
	answered, free chan struct{}
}

func (s *stuck) WriteFrame(parts ...[]byte) error {
	f := bytes.Join(parts, nil)
	if len(f) > etherLen+ipLen+tcpLen && f[etherLen+9] == protoTCP && f[etherLen+ipLen+13]&2 != 0 {
		s.once.Do(func() { close(s.answered) })
		<-s.free
	}
	return s.cable.WriteFrame(f)
}

// While a SYN is being answered nobody holds the connection: gVisor would try for it again and
// again when the guest goes on.
func TestSYNAnswerDoesNotBlock(t *testing.T) {
	c := &stuck{cable: newCable(), answered: make(chan struct{}), free: make(chan struct{})}
	p := (&policy{stream: func(_ context.Context, _ Destination, c Conn) error {
		_, err := io.Copy(c, c)
		return err
	}}).allowAll()
	s, err := New(c, p)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Close()
	b := plugIn(t, c.cable)
	got := make(chan error, 1)
	go func() {
		conn, err := b.dial(t, remoteAddr)
		if err == nil {
			err = conn.Close()
		}
		got <- err
	}()
	<-c.answered
	held := make(chan struct{})
	go func() {
		defer close(held)
		for _, e := range s.tcpip.RegisteredEndpoints() {
			_, _ = e.(tcpip.Endpoint).GetLocalAddress() // takes the lock
		}
	}()
	select {
	case <-held:
	case <-time.After(5 * time.Minute):
		t.Error("the connection is held while its SYN is being answered")
	}
	close(c.free)
	if err := <-got; err != nil {
		t.Error(err)
	}
	<-held
}
