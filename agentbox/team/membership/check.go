package membership

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"agentbox/agentbox"
)

// wantedReceiveBuffer is the buffer size that quic-go requests from the kernel, in bytes. With
// less, packets of fast links are lost before they are read. The report only names the sysctl and
// changes nothing.
const wantedReceiveBuffer = 7 << 20

// Check reports how this machine takes part in its team. Being in no team is fine. Being alone
// in a team with several members is an error that names the most probable causes. What only slows
// the team down is in the detail.
func (m Membership) Check(ctx context.Context) (string, error) {
	if m.Err != nil {
		return "", m.Err
	}
	s := m.Mesh.Status()
	switch {
	case s.Problem != nil:
		return "", agentbox.Errorf(agentbox.Unavailable, "this machine does not take part in its team: %w", s.Problem).
			WithHint("agentbox daemon stop, when the port can be used again")
	case s.Team.IsZero():
		return "none", nil
	// Alone among several. Either this machine's own packets are dropped, which it can detect, or
	// the others are off.
	case s.Members > 1 && s.Online == 0:
		if err := m.Mesh.CheckSend(); err != nil {
			return "", err
		}
		return "", agentbox.Errorf(agentbox.Unavailable, "none of the %s is here", agentbox.Plural(s.Members-1, "other machine")).
			WithHint("they are off or elsewhere, or a firewall drops UDP port %d here or there", s.Listen.Port())
	}
	detail := fmt.Sprintf("%d of %s here, UDP port %d", s.Online, agentbox.Plural(s.Members-1, "other"), s.Listen.Port())
	// A small buffer only slows down fast links, so it is no failure.
	if size := receiveBuffer(); size > 0 && size < wantedReceiveBuffer {
		detail += fmt.Sprintf("; UDP buffers of %d KiB: sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d makes links above 1 Gbit/s faster", size>>10, wantedReceiveBuffer, wantedReceiveBuffer)
	}
	return detail + m.skewedPeers(ctx), nil
}

// maxClockSkew is the difference between two clocks above which we warn. Nothing depends on it, but
// dates of images and memberships are confusing then.
const maxClockSkew = 30 * time.Second

// skewedPeers names the members whose clocks differ from ours, sorted by name. It takes a round
// trip to each member that is online.
func (m Membership) skewedPeers(ctx context.Context) string {
	var out []string
	for id, ahead := range m.Mesh.ClockOffsets(ctx) {
		if ahead.Abs() < maxClockSkew {
			continue
		}
		name, where := id.Short(), "ahead of"
		if m, err := m.Mesh.Find(id.String()); err == nil {
			name = m.Name
		}
		if ahead < 0 {
			where = "behind"
		}
		out = append(out, fmt.Sprintf("; the clock of %s is %s %s this one", name, ahead.Abs().Round(time.Second), where))
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// receiveBuffer returns the maximum size of a socket's buffer in bytes, or 0 if it is unknown.
func receiveBuffer() int {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	values, err := fs.SysctlInts("net.core.rmem_max")
	if err != nil || len(values) != 1 {
		return 0
	}
	return values[0]
}
