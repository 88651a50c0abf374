package exchange

import (
	"encoding/binary"
	"io"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange/schedule"
)

// magic starts a session: the opener names the manifest next. The digit is the version.
const magic = "ABXBLOB1"

// frameType is the type of a frame. The numbers are on the wire.
type frameType uint8

// The peer that opens a session sends its opening and what it has. The other one answers with a
// welcome, what it has, and who else is there, or closes the stream. From then on both are
// equal: each sends requests, and answers the other's (piece and data, or none), in any order
// and up to schedule.MaxQueued at the same time.
const (
	frameWelcome  frameType = iota + 1 // the answer to the opening, empty
	frameBits                          // what the sender has: number of pieces, bitmap
	frameHave                          // numbers of pieces that it has from now on
	frameLost                          // and that it has no more
	frameRequest                       // id, class, numbers of pieces of which one is to be sent
	frameCancel                        // id
	framePiece                         // id, number, encoding, size, stored bytes: the answer begins
	frameData                          // id, bytes of it
	frameNone                          // id: there is nothing (more) to come
	frameManifest                      // asks for the manifest itself; it comes as the piece manifestNumber
	framePeers                         // others with sessions about this manifest
)

// Limits of what one frame may carry. After dataSize bytes of a piece, news and requests get
// their turn; maxNumbers is also schedule's bound for an open request.
const (
	dataSize      = 64 << 10
	maxNumbers    = 512
	maxPeersNamed = 64
	headerSize    = 5
	maxChunks     = blob.MaxManifest / 32
	maxBitsSize   = 4 + (maxChunks+7)/8
)

// manifestNumber is the number and the request id of a manifest that is itself transferred. No blob
// has so many chunks.
const manifestNumber = 1<<32 - 1

// maxUnknown is the most bytes of a frame of a later build, which are read and dropped.
const maxUnknown = 64 << 10

func (f frameType) known() bool { return f >= frameWelcome && f <= framePeers }

// limit is the maximum length of the payload of a frame, in bytes.
func (f frameType) limit() int {
	switch f {
	case frameWelcome, frameManifest:
		return 0
	case frameBits:
		return maxBitsSize
	case frameHave, frameLost:
		return 4 * maxNumbers
	case frameRequest:
		return 5 + 4*maxNumbers
	case frameCancel, frameNone:
		return 4
	case framePiece:
		return pieceSize
	case frameData:
		return 4 + dataSize
	case framePeers:
		return maxPeersNamed * len(PeerID{})
	}
	return maxUnknown
}

// malformed is for a peer that breaks the protocol: Corrupt, so it counts as a strike.
func malformed(format string, args ...any) error {
	return agentbox.Errorf(agentbox.Corrupt, "a peer's frame: "+format, args...)
}

// appendFrame appends a frame to what is to be written. The payload is within its limit.
func appendFrame(b []byte, t frameType, payload ...byte) []byte {
	b = append(b, byte(t))
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

// readHeader reads the header of a frame, and refuses one that is longer than such a frame may be.
func readHeader(r io.Reader, buf *[headerSize]byte) (frameType, int, error) {
	if _, err := io.ReadFull(r, buf[:]); err != nil {
		return 0, 0, err
	}
	t, n := frameType(buf[0]), binary.BigEndian.Uint32(buf[1:])
	if int64(n) > int64(t.limit()) {
		return 0, 0, malformed("type %d with %d bytes", t, n)
	}
	return t, int(n), nil
}

func opening(manifest agentbox.Digest) []byte { return append([]byte(magic), manifest[:]...) }

func readOpening(r io.Reader) (agentbox.Digest, error) {
	var b [len(magic) + len(agentbox.Digest{})]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return agentbox.Digest{}, err
	}
	if string(b[:len(magic)]) != magic {
		return agentbox.Digest{}, malformed("a session does not begin with %q", magic)
	}
	return agentbox.Digest(b[len(magic):]), nil
}

// encodeBits encodes a bitmap after the number of its chunks.
func encodeBits(chunks int, bits []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(chunks)), bits...)
}

// decodeBits decodes a bitmap. session.ready compares the number with the manifest.
func decodeBits(b []byte) (chunks int, bits []byte, err error) {
	if len(b) < 4 {
		return 0, nil, malformed("a bitmap of %d bytes", len(b))
	}
	n := binary.BigEndian.Uint32(b)
	if int64(len(b)-4) != (int64(n)+7)/8 {
		return 0, nil, malformed("a bitmap of %d bytes for %d pieces", len(b)-4, n)
	}
	return int(n), b[4:], nil
}

func encodeNumbers(b []byte, numbers []int) []byte {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// decodeNumbers decodes numbers of pieces, each of which exists in a blob with that many.
func decodeNumbers(b []byte, chunks int) ([]int, error) {
	if len(b)%4 != 0 {
		return nil, malformed("%d bytes of numbers", len(b))
	}
	out := make([]int, 0, len(b)/4)
	for ; len(b) > 0; b = b[4:] {
		n := binary.BigEndian.Uint32(b)
		if int64(n) >= int64(chunks) {
			return nil, malformed("piece %d of %d", n, chunks)
		}
		out = append(out, int(n))
	}
	return out, nil
}

// request asks for one of several pieces, or for the only one.
type request struct {
	id     uint32
	class  schedule.Class
	pieces []int
}

func (r request) encode() []byte {
	b := append(binary.BigEndian.AppendUint32(nil, r.id), byte(r.class))
	return encodeNumbers(b, r.pieces)
}

// decodeRequest decodes a request. It names at least one piece, each of the blob.
func decodeRequest(b []byte, chunks int) (request, error) {
	if len(b) < 9 {
		return request{}, malformed("a request of %d bytes", len(b))
	}
	r := request{id: binary.BigEndian.Uint32(b), class: schedule.Class(b[4])}
	if r.class < schedule.Rest || r.class > schedule.Demand || r.id == manifestNumber {
		return request{}, malformed("a request of class %d", b[4])
	}
	var err error
	r.pieces, err = decodeNumbers(b[5:], chunks)
	return r, err
}

// pieceHead starts an answer: the piece, the request, and the encoding. Size is in bytes after
// decoding, Stored as transferred. It is encoded in the order of its fields, big-endian.
type pieceHead struct {
	ID, Number   uint32
	Encoding     blob.Encoding
	Size, Stored uint32
}

// pieceSize is the length of an encoded pieceHead.
var pieceSize = binary.Size(pieceHead{})

func (p pieceHead) encode() []byte {
	b, _ := binary.Append(nil, binary.BigEndian, p) // its fields all have a size
	return b
}

// decodePiece decodes a pieceHead, and refuses what no store has: more bytes than the piece has.
func decodePiece(b []byte) (p pieceHead, err error) {
	if _, err := binary.Decode(b, binary.BigEndian, &p); err != nil || len(b) != pieceSize {
		return p, malformed("the head of a piece has %d bytes", len(b))
	}
	if p.Encoding != blob.Plain && p.Encoding != blob.Zstd || p.Size > blob.MaxPiece || p.Stored > p.Size || p.Stored == 0 || p.Encoding == blob.Plain && p.Stored != p.Size {
		return p, malformed("a piece of %d bytes as %d in encoding %d", p.Size, p.Stored, p.Encoding)
	}
	return p, nil
}

// decodePeers decodes peers that have sessions about the same manifest. They are hints: the
// connection proves who answers.
func decodePeers(b []byte) ([]PeerID, error) {
	if len(b)%len(PeerID{}) != 0 {
		return nil, malformed("%d bytes of peers", len(b))
	}
	var out []PeerID
	for ; len(b) > 0; b = b[len(PeerID{}):] {
		out = append(out, PeerID(b[:len(PeerID{})]))
	}
	return out, nil
}

func decodeID(b []byte) (uint32, error) {
	if len(b) != 4 {
		return 0, malformed("an id of %d bytes", len(b))
	}
	return binary.BigEndian.Uint32(b), nil
}
