package bounded_test

import (
	"fmt"
	"strings"
	"testing"

	"agentbox/agentbox/bounded"
)

// Whatever the pieces, Ends has the first and the last bytes.
func TestEnds(t *testing.T) {
	const limit = 11
	for total := range 60 {
		text := strings.Repeat("abcdefghijklmnopqrstuvwxyz", 3)[:total]
		want := text
		if total > limit {
			want = fmt.Sprintf("%s\n[... %d bytes are not shown ...]\n%s", text[:5], total-limit, text[total-6:])
		}
		for piece := 1; piece < 30; piece++ {
			e := bounded.Ends{Limit: limit}
			for at := 0; at < total; at += piece {
				p := text[at:min(total, at+piece)]
				if n, err := e.Write([]byte(p)); n != len(p) || err != nil {
					t.Fatalf("wrote %d of %d: %v", n, len(p), err)
				}
			}
			if got := string(e.Bytes()); got != want {
				t.Fatalf("%d bytes in pieces of %d: %q, want %q", total, piece, got, want)
			}
			if e.Dropped() != int64(max(0, total-limit)) {
				t.Fatalf("%d of %d dropped", e.Dropped(), total)
			}
		}
	}
}
