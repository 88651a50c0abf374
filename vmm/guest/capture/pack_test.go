//go:build linux

package capture

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// applied is what a delta makes of the last version of a file, as gitformat-pack(5) has it.
func applied(t *testing.T, old, d []byte) (now []byte) {
	t.Helper()
	was, n := binary.Uvarint(d)
	size, m := binary.Uvarint(d[n:])
	for d = d[n+m:]; len(d) > 0; {
		if op := int(d[0]); op != 0xff {
			now, d = append(now, d[1:1+op]...), d[1+op:]
			continue
		}
		from := int(binary.LittleEndian.Uint32(d[1:]))
		count := int(d[5]) | int(d[6])<<8 | int(d[7])<<16
		now, d = append(now, old[from:from+count]...), d[8:]
	}
	if was != uint64(len(old)) || size != uint64(len(now)) {
		t.Errorf("it says %d and %d bytes, not %d and %d", was, size, len(old), len(now))
	}
	return now
}

func sameByDelta(t *testing.T, old, now []byte) {
	d, ok := deltaOf(old, now)
	if !ok {
		if len(now) <= maxMiddle {
			t.Errorf("there is none from %d to %d bytes", len(old), len(now))
		}
		return
	}
	if got := applied(t, old, d); !bytes.Equal(got, now) {
		t.Errorf("%d bytes of another content, want %d", len(got), len(now))
	}
}

func TestDelta(t *testing.T) {
	a, large := bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("0123456789"), 4_000_000)
	for _, pair := range [][2][]byte{
		{nil, []byte("x")}, {[]byte("x"), nil}, {a, a[1:]}, {a[1:], a}, {a, append(slices.Clone(a), 'b')}, {a, append([]byte("b"), a...)},
		{a, slices.Concat(a[:50_000], []byte("middle"), a[50_001:])}, {large, append(slices.Clone(large), "end"...)},
	} {
		sameByDelta(t, pair[0], pair[1])
	}
	if _, ok := deltaOf(large, bytes.ToUpper(bytes.Repeat([]byte("x"), maxMiddle+1))); ok {
		t.Error("a delta of what is all new")
	}
}

func FuzzDelta(f *testing.F) {
	f.Add([]byte("one\ntwo\n"), []byte("one\n2\ntwo\n"))
	f.Fuzz(sameByDelta)
}
