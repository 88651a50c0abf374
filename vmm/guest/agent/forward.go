//go:build linux

package agent

import (
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	dialTimeout    = 10 * time.Second // nothing in a guest is far away
	deliverTimeout = 10 * time.Second // for what a client sent before it closed
)

// directTCPIP connects the client to an address that can be reached from inside the guest,
// including Unix sockets, with the rights of the agent, which is root. The client is the
// supervisor, or a client of its relay.
func (c *connection) directTCPIP(nc ssh.NewChannel) {
	network, address, ok := directTarget(nc)
	if !ok {
		nc.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	target, err := net.DialTimeout(network, address, dialTimeout)
	if err != nil {
		nc.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	ch, requests, err := nc.Accept()
	if err != nil {
		target.Close()
		return
	}
	c.splice(ch, requests, target)
}

// directTarget reads a channel's destination (RFC 4254, 7.2; OpenSSH's PROTOCOL for sockets).
func directTarget(nc ssh.NewChannel) (network, address string, ok bool) {
	if nc.ChannelType() == "direct-streamlocal@openssh.com" {
		var v struct {
			Path     string
			Reserved string
			Unused   uint32
		}
		return "unix", v.Path, ssh.Unmarshal(nc.ExtraData(), &v) == nil
	}
	var v struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if ssh.Unmarshal(nc.ExtraData(), &v) != nil || v.Port > 65535 {
		return "", "", false
	}
	return "tcp", net.JoinHostPort(v.Host, strconv.Itoa(int(v.Port))), true
}

// halfCloser is a connection whose directions end separately.
type halfCloser interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// splice copies in both directions until both have ended, one has failed, or the client closed the
// channel. One direction of a half-closed connection goes on. Both ends are closed when it returns.
func (c *connection) splice(ch ssh.Channel, requests <-chan *ssh.Request, target net.Conn) {
	defer ch.Close()
	defer target.Close()
	other, ok := target.(halfCloser)
	if !ok {
		return // TCP and unix sockets are
	}
	var up sync.WaitGroup
	up.Add(1)
	c.agent.goRecover("forward in", func() {
		defer up.Done()
		if _, err := io.Copy(target, ch); err != nil {
			target.Close()
		}
		other.CloseWrite()
	})
	c.agent.goRecover("forward end", func() {
		ssh.DiscardRequests(requests)
		// The client closed the channel, and gets nothing any more. What it sent before is still
		// delivered.
		// The client closed the channel. What it sent before is still delivered.
		target.SetWriteDeadline(time.Now().Add(deliverTimeout))
		up.Wait()
		target.Close()
	})
	// The other direction may still be open: half-closed connections are common (a client that has
	// sent its request).
	_, err := io.Copy(ch, target)
	ch.CloseWrite()
	if err != nil {
		ch.Close()
	}
	up.Wait()
}

// binds are the listeners that a connection asked for, by the address in its request. Only the
// goroutine that answers its requests uses them.
type binds map[string]net.Listener

type bindRequest struct {
	Address string
	Port    uint32
}

func (b bindRequest) key() string { return net.JoinHostPort(b.Address, strconv.Itoa(int(b.Port))) }

// listen answers tcpip-forward: connections to the address in the guest go to the client. Port 0
// chooses a port, which the reply contains. An address in use is refused.
func (c *connection) listen(payload []byte) (reply []byte, ok bool) {
	var r bindRequest
	if ssh.Unmarshal(payload, &r) != nil || r.Port > 65535 {
		return nil, false
	}
	address := r.Address
	// Only the box itself may connect to what is forwarded out of it, unless the client says
	// otherwise.
	if address == "" || address == "localhost" { // only the box itself may connect
		address = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(int(r.Port))))
	if err != nil {
		return nil, false
	}
	if r.Port == 0 {
		r.Port = uint32(l.Addr().(*net.TCPAddr).Port)
		reply = ssh.Marshal(struct{ Port uint32 }{r.Port})
	}
	if c.binds[r.key()] != nil {
		l.Close()
		return nil, false
	}
	c.binds[r.key()] = l
	c.agent.goRecover("listener", func() { c.accept(l, r) })
	return reply, true
}

// accept opens a channel to the client for each connection to l, until l is closed. A connection
// whose channel the client refuses is closed.
func (c *connection) accept(l net.Listener, r bindRequest) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed
		}
		c.agent.goRecover("forwarded", func() {
			origin := conn.RemoteAddr().(*net.TCPAddr)
			ch, requests, err := c.ssh.OpenChannel("forwarded-tcpip", ssh.Marshal(struct {
				Address    string
				Port       uint32
				OriginHost string
				OriginPort uint32
			}{r.Address, r.Port, origin.IP.String(), uint32(origin.Port)}))
			if err != nil {
				conn.Close()
				return
			}
			c.splice(ch, requests, conn)
		})
	}
}

// cancelListen answers cancel-tcpip-forward, and returns false for an unknown address.
func (c *connection) cancelListen(payload []byte) bool {
	var r bindRequest
	if ssh.Unmarshal(payload, &r) != nil || c.binds[r.key()] == nil {
		return false
	}
	c.binds[r.key()].Close()
	delete(c.binds, r.key())
	return true
}

func (b binds) close() {
	for _, l := range b {
		l.Close()
	}
}
