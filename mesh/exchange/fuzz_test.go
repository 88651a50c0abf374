package exchange

import (
	"bytes"
	"io"
	"testing"
	"time"

	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange/schedule"
)

func FuzzFrame(f *testing.F) {
	f.Add(byte(frameBits), encodeBits(9, []byte{1, 2}))
	f.Add(byte(frameRequest), request{7, schedule.Soon, []int{1, 2, 3}}.encode())
	f.Add(byte(framePiece), pieceHead{1, 2, blob.Zstd, 100, 50}.encode())
	f.Add(byte(framePeers), make([]byte, 64))
	f.Add(byte(frameHave), encodeNumbers(nil, []int{1, 1 << 30}))
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		const chunks = 1000
		switch frameType(kind) {
		case frameBits:
			if n, bits, err := decodeBits(b); err == nil && !bytes.Equal(encodeBits(n, bits), b) {
				t.Error("another bitmap")
			}
		case frameRequest:
			r, err := decodeRequest(b, chunks)
			if err == nil && !bytes.Equal(r.encode(), b) {
				t.Error("another request")
			}
		case framePiece:
			p, err := decodePiece(b)
			if err == nil && (!bytes.Equal(p.encode(), b) || p.Stored > p.Size || p.Size > blob.MaxPiece) {
				t.Errorf("%+v", p)
			}
		case framePeers:
			if list, err := decodePeers(b); err == nil && len(list)*32 != len(b) {
				t.Error("another list")
			}
		default:
			numbers, err := decodeNumbers(b, chunks)
			for _, n := range numbers {
				if err == nil && (n < 0 || n >= chunks) {
					t.Errorf("number %d", n)
				}
			}
		}
	})
}

// readOnlyStream is a stream of which a fuzzer wrote one direction.
type readOnlyStream struct{ io.Reader }

func (readOnlyStream) Write(p []byte) (int, error)      { return len(p), nil }
func (readOnlyStream) Close() error                     { return nil }
func (readOnlyStream) SetReadDeadline(time.Time) error  { return nil }
func (readOnlyStream) SetWriteDeadline(time.Time) error { return nil }

// FuzzSession has a whole session be what somebody likes to send.
func FuzzSession(f *testing.F) {
	d, mf, chunks := someBlob(5, 300)
	frames := append(opening(d), appendFrame(nil, frameBits, encodeBits(5, []byte{3})...)...)
	frames = appendFrame(frames, frameRequest, request{1, schedule.Demand, []int{4, 2}}.encode()...)
	f.Add(frames)
	f.Add(appendFrame(frames, framePiece, pieceHead{1, 2, blob.Plain, 300, 300}.encode()...))
	f.Add(appendFrame(appendFrame(frames, frameManifest), frameCancel, 0, 0, 0, 1))
	f.Add(appendFrame(appendFrame(frames, framePeers+1, 1, 2, 3), frameManifest))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := newTestNetwork(t)
		m := o.machine(1)
		m.give(d, mf, chunks, 0, 1, 2)
		tr := m.begin(d, mf)
		if err := m.Serve(t.Context(), PeerID{9}, readOnlyStream{bytes.NewReader(b)}); err == nil {
			t.Error("a session ended without a reason")
		}
		tr.Close()
		for _, i := range []int{3, 4} {
			if m.chunks[mf.Chunks[i].Digest] != nil && !bytes.Equal(m.chunks[mf.Chunks[i].Digest], chunks[i]) {
				t.Errorf("wrong bytes for piece %d", i)
			}
		}
	})
}
