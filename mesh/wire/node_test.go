package wire_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
	"agentbox/tools/suites/meshtest"
)

var discard = slog.New(slog.DiscardHandler)

// echo gives back what comes, on streams and in datagrams.
func echo(ctx context.Context, c *wire.Conn) {
	go func() {
		for {
			b, err := c.ReceiveDatagram(ctx)
			if err != nil {
				return
			}
			_ = c.SendDatagram(b)
		}
	}()
	for {
		s, err := c.AcceptStream(ctx)
		if err != nil {
			return
		}
		_, _ = io.Copy(s, s)
		_ = s.Close()
	}
}

func dial(t *testing.T, from, to *wire.Node) *wire.Conn {
	t.Helper()
	c, err := from.Dial(t.Context(), to.Self(), wire.Blobs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func ask(t *testing.T, c *wire.Conn, b []byte) ([]byte, error) {
	t.Helper()
	s, err := c.OpenStream(t.Context())
	if err != nil {
		return nil, err
	}
	defer s.Abort()
	if _, err := s.Write(b); err != nil {
		return nil, err
	}
	_ = s.Close()
	return io.ReadAll(s)
}

func TestMembersConnect(t *testing.T) {
	_, nodes := meshtest.Nodes(t, 2)
	a, b := nodes[0], nodes[1]
	served := make(chan identity.PeerID, 1)
	b.Handle(wire.Blobs, func(ctx context.Context, c *wire.Conn) {
		served <- c.Peer()
		echo(ctx, c)
	})
	c := dial(t, a, b)
	if c.Peer() != b.Self() || <-served != a.Self() {
		t.Fatal("the peers are not who they are")
	}
	big := bytes.Repeat([]byte("agentbox"), 1<<15) // within what both sides buffer
	if got, err := ask(t, c, big); err != nil || !bytes.Equal(got, big) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	small := bytes.Repeat([]byte{7}, wire.MaxDatagram)
	if err := c.SendDatagram(small); err != nil {
		t.Fatal(err)
	}
	if got, err := c.ReceiveDatagram(t.Context()); err != nil || !bytes.Equal(got, small) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if err := c.SendDatagram(append(small, 0)); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("a datagram that is too large: %v", err)
	}
	if a.Counters().Dialled.Load() != 1 || b.Counters().Accepted.Load() != 1 {
		t.Errorf("%+v, %+v", a.Counters(), b.Counters())
	}
}

// A line is there still when another connection has ended on which nothing was said, either.
func TestLineStays(t *testing.T) {
	t.Parallel()
	_, nodes := meshtest.Nodes(t, 2)
	a, b := nodes[0], nodes[1]
	b.Handle(wire.Blobs, echo)
	line, err := a.DialLine(t.Context(), b.Self(), wire.Blobs)
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	<-dial(t, a, b).Context().Done()
	if got, err := ask(t, line, []byte("there")); err != nil || string(got) != "there" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestUnservedServiceIsRefused(t *testing.T) {
	_, nodes := meshtest.Nodes(t, 2)
	if _, err := nodes[0].Dial(t.Context(), nodes[1].Self(), wire.Blobs); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Error(err)
	}
	if _, err := nodes[0].Dial(t.Context(), nodes[0].Self(), wire.Blobs); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Error(err)
	}
}

func TestRevokedPeerIsDisconnected(t *testing.T) {
	team := meshtest.NewTeam(t)
	keyA, keyB := team.Add(), team.Add()
	a, b := meshtest.Node(t, keyA), meshtest.Node(t, keyB)
	meshtest.Introduce(team, a, b)
	b.Handle(wire.Blobs, echo)
	c := dial(t, a, b)
	if _, err := ask(t, c, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	team.Revoke(keyA)
	b.Admit(team.List) // a does not know
	select {
	case <-c.Context().Done():
	case <-time.After(5 * time.Minute):
		t.Fatal("the connection goes on")
	}
	_, err := a.Dial(t.Context(), b.Self(), wire.Blobs)
	if agentbox.CodeOf(err) != agentbox.Conflict || agentbox.AsError(err).Hint == "" {
		t.Fatalf("the revoked peer gets %v", err)
	}
	// Nor does anybody who knows connect to it.
	if _, err := b.Dial(t.Context(), a.Self(), wire.Blobs); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Fatal(err)
	}
	if b.Counters().Closed.Load() == 0 || len(b.Addresses(a.Self())) != 0 {
		t.Errorf("%+v, %v", b.Counters(), b.Addresses(a.Self()))
	}
}

func TestExpiredMemberIsDisconnected(t *testing.T) {
	t.Parallel()
	team := meshtest.NewTeam(t)
	guest, host := team.Add(), team.Add()
	team.Change(guest, func(e *identity.Entry) { e.Expires = time.Now().Add(2 * time.Second) })
	a, b := meshtest.Node(t, guest), meshtest.Node(t, host)
	meshtest.Introduce(team, a, b)
	b.Handle(wire.Blobs, echo)
	c, err := a.Dial(t.Context(), b.Self(), wire.Blobs)
	if err != nil {
		t.Skipf("it expired before it connected: %v", err)
	}
	select {
	case <-c.Context().Done():
	case <-time.After(5 * time.Minute):
		t.Fatal("the connection goes on")
	}
}

// A stranger that knows all there is to know but the root key does not even see a certificate.
func TestStrangerLearnsNothing(t *testing.T) {
	team, nodes := meshtest.Nodes(t, 1)
	b := nodes[0]
	var reached atomic.Bool
	b.Handle(wire.Blobs, func(ctx context.Context, c *wire.Conn) { reached.Store(true) })
	stranger := meshtest.Node(t, meshtest.Key(t))
	stranger.Admit(team.List) // it got hold of the list
	stranger.AddAddresses(b.Self(), b.Addr())
	if _, err := stranger.Dial(t.Context(), b.Self(), wire.Blobs); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Fatal(err)
	}
	for _, protos := range [][]string{{"h3"}, {"ab1/0011223344556677/blobs-1"}, {"ab1/join/00"}, {"h3", "ab1/join/00"}, {"blobs-1"}, {""}} {
		saw := false
		_, err := quic.DialAddr(t.Context(), b.Addr().String(), &tls.Config{
			InsecureSkipVerify: true, NextProtos: protos,
			VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error { saw = true; return nil },
		}, &quic.Config{HandshakeIdleTimeout: time.Second})
		if err == nil || saw {
			t.Errorf("%q: %v, saw a certificate: %v", protos, err, saw)
		}
		var app *quic.ApplicationError
		if errors.As(err, &app) && app.ErrorMessage != "" {
			t.Errorf("%q is told %q", protos, app.ErrorMessage)
		}
	}
	if reached.Load() || b.Counters().Refused.Load() < 6 {
		t.Errorf("reached %v, %+v", reached.Load(), b.Counters())
	}
}

// Whoever sits at a peer's address with another key is not that peer.
func TestOtherPeerAtAddress(t *testing.T) {
	_, nodes := meshtest.Nodes(t, 3)
	a, b, c := nodes[0], nodes[1], nodes[2]
	b.Handle(wire.Blobs, echo)
	c.Handle(wire.Blobs, echo)
	lost := meshtest.Key(t)
	if _, err := a.DialAddr(t.Context(), c.Addr(), wire.Blobs); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Dial(t.Context(), meshtest.ID(lost), wire.Blobs); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Fatal(err)
	}
	// b is said to be where c is as well: the one that is b is taken.
	a.AddAddresses(b.Self(), c.Addr())
	if conn, err := a.Dial(t.Context(), b.Self(), wire.Blobs); err != nil || conn.Remote() != b.Addr() {
		t.Fatal(err)
	}
	if got := a.Addresses(b.Self()); len(got) != 2 || got[0] != b.Addr() {
		t.Errorf("%v", got)
	}
}

func TestConnectionsPerPeerAreLimited(t *testing.T) {
	_, nodes := meshtest.Nodes(t, 2)
	nodes[1].Handle(wire.Blobs, echo)
	opened := 0
	for range 24 {
		if _, err := nodes[0].Dial(t.Context(), nodes[1].Self(), wire.Blobs); err == nil {
			opened++
		}
	}
	if opened != 16 || nodes[1].Counters().OverLimit.Load() == 0 {
		t.Errorf("%d connections, %+v", opened, nodes[1].Counters())
	}
}

func TestRestartedPeerIsDetected(t *testing.T) {
	t.Parallel()
	team := meshtest.NewTeam(t)
	keyA, keyB := team.Add(), team.Add()
	a := meshtest.Node(t, keyA)
	listen := func(at string) *wire.Node {
		n, err := wire.Listen(wire.Config{Key: keyB, Listen: at, Log: discard})
		if err != nil {
			t.Fatal(err)
		}
		n.Handle(wire.Blobs, echo)
		return n
	}
	b := listen("127.0.0.1:0")
	meshtest.Introduce(team, a, b)
	dial(t, a, b)
	at := b.Addr().String()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Dial(t.Context(), meshtest.ID(keyB), wire.Blobs); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Fatalf("nobody is there, and %v", err)
	}
	b = listen(at)
	defer b.Close()
	b.Admit(team.List)
	dial(t, a, b)
}

func TestGuestsNeedInvitation(t *testing.T) {
	_, nodes := meshtest.Nodes(t, 1)
	b := nodes[0]
	guest := meshtest.Node(t, meshtest.Key(t))
	seen := make(chan []byte, 1)
	one, two := wire.GuestService("id-1"), wire.GuestService("id-2")
	serve := func(ctx context.Context, c *wire.Conn) {
		if c.Peer() != guest.Self() {
			t.Errorf("the guest is %s", c.Peer())
		}
		binding, err := c.Binding()
		if err != nil {
			t.Error(err)
		}
		seen <- binding
		echo(ctx, c)
	}
	b.HandleGuests(func(s wire.Service) wire.Handler {
		if s != one {
			return nil
		}
		return serve
	})
	if _, err := guest.DialGuest(t.Context(), b.Addr().String(), two); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Fatal(err)
	}
	c, err := guest.DialGuest(t.Context(), b.Addr().String(), one)
	if err != nil {
		t.Fatal(err)
	}
	binding, err := c.Binding()
	if err != nil || !bytes.Equal(binding, <-seen) || len(binding) != 32 {
		t.Fatalf("%x, %v", binding, err)
	}
	if got, err := ask(t, c, []byte("hello")); err != nil || string(got) != "hello" {
		t.Fatal(err)
	}
	b.HandleGuests(func(wire.Service) wire.Handler { return nil })
	if _, err := guest.DialGuest(t.Context(), b.Addr().String(), one); err == nil {
		t.Fatal("an invitation that was taken back")
	}
}

func TestInvalidAddress(t *testing.T) {
	guest := meshtest.Node(t, meshtest.Key(t))
	for _, address := range []string{"", "localhost", "127.0.0.1", "127.0.0.1:no-such-service", "127.0.0.1:70000"} {
		if _, err := guest.DialGuest(t.Context(), address, wire.GuestService("id")); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%q: code %s: %v", address, agentbox.CodeOf(err), err)
		}
	}
}

func TestRandomPackets(t *testing.T) {
	_, nodes := meshtest.Nodes(t, 2)
	nodes[1].Handle(wire.Blobs, echo)
	s, err := net.Dial("udp", nodes[1].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 2000 {
		_, _ = s.Write(bytes.Repeat([]byte{byte(i), byte(i >> 3)}, i%700+1))
	}
	dial(t, nodes[0], nodes[1])
}
