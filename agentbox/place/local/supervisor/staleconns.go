package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox/background"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/environment"
	"agentbox/vmm/guest/protocol"
)

// staleConn is a TCP connection that a guest still has from before its machine was saved.
type staleConn struct {
	port   uint16 // of the guest
	remote netip.AddrPort
}

const (
	// staleConnsDelay leaves the processor to the command that has just resumed it.
	staleConnsDelay = time.Second
	// staleConnsTimeout is generous: emulated machines are slow.
	staleConnsTimeout = time.Minute
	// maxStaleConns bounds what a guest may tell.
	maxStaleConns = 4096
)

// resetStaleConns resets the connections that the guest of a saved machine still has: their other
// ends are gone, and a program that only waits for data would wait for ever. The guest's table is
// bounded. A false one resets connections of the box that reports it, and nothing else.
func (s *Supervisor) resetStaleConns(ctx context.Context) {
	if !background.Sleep(ctx, staleConnsDelay) {
		return
	}
	client, err := s.link.ssh(ctx)
	if err != nil {
		return // the machine is ending
	}
	ctx, cancel := context.WithTimeout(ctx, staleConnsTimeout)
	defer cancel()
	var table bytes.Buffer // 256 bytes are enough for each connection
	if _, err := environment.Exec(ctx, client, environment.Command{Argv: []string{"cat", "/proc/net/tcp"}, Stdout: &bounded.Head{W: &table, Remaining: 256 * maxStaleConns}}); err != nil {
		s.log.Warn("cannot ask the guest for the connections it has kept", "error", err)
		return
	}
	for _, c := range parseStaleConns(&table) {
		s.network.ResetStale(c.port, c.remote)
	}
}

// parseStaleConns reads /proc/net/tcp of a guest (proc(5)) and returns the connections between the
// box's address and anybody else's. It skips lines that make no sense.
func parseStaleConns(r io.Reader) []staleConn {
	const timeWait, listening = 0x06, 0x0a
	var out []staleConn
	for lines := bufio.NewScanner(r); lines.Scan() && len(out) < maxStaleConns; {
		f := strings.Fields(lines.Text())
		if len(f) < 4 {
			continue
		}
		local, ok := socketAddr(f[1])
		remote, also := socketAddr(f[2])
		state, err := strconv.ParseUint(f[3], 16, 8)
		if !ok || !also || err != nil || state == timeWait || state == listening {
			continue
		}
		if local.Addr() == protocol.GuestAddr && remote.Addr() != protocol.GuestAddr && remote.Port() != 0 {
			out = append(out, staleConn{local.Port(), remote})
		}
	}
	return out
}

// socketAddr reads an address as /proc has it: four bytes in reverse and the port, in hex.
func socketAddr(s string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	if !ok || err != nil || len(b) != 4 {
		return netip.AddrPort{}, false
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]}), uint16(n)), true
}
