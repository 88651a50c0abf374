package index

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// Location is where a chunk is: the content of a claim. Equal Locations are the same claim, so
// readers compare them to find out whether a chunk was moved (cachestore.Store.read).
type Location struct {
	Image bool // in an image file; otherwise in a pack
	// File is the number of the pack or image file, which is in its name.
	File uint64
	// Off is where its bytes begin, in bytes from the start of the file. In a pack, that is behind
	// the header of its record.
	Off      int64
	Stored   uint32 // bytes in the file
	Size     uint32 // decoded
	Encoding blob.Encoding
	Seen     uint32 // Unix time, in seconds, at which the claim was made
}

// Meta is the metadata of a manifest in the store. Times are UTC. An entry does not mean that all
// chunks of the manifest are in the store.
type Meta struct {
	Kind      blob.Kind `json:"kind"`
	MediaType string    `json:"media_type,omitempty"`
	Size      int64     `json:"size"`
	// Chunks and Blocks are copied from the manifest, for listings that do not read it.
	Chunks  int       `json:"chunks"`
	Blocks  bool      `json:"blocks,omitempty"`
	Charged int64     `json:"charged"` // bytes that were written for it, which count for its kind's quota
	Created time.Time `json:"created"`
	// Used is when it was last opened for reading, Uses how often; uses in quick succession count
	// once.
	Used  time.Time `json:"used"`
	Uses  int       `json:"uses"`
	File  uint64    `json:"file,omitempty"`  // number of its image file, 0 for none
	Whole bool      `json:"whole,omitempty"` // the image file holds every chunk, including those that are also elsewhere
}

// The first byte of a key is its table; the rest is a digest or a fingerprint. placeLen is the
// length of an encoded Location in bytes, sumLen that of the checksum behind every value.
const (
	chunkKey = 'c'
	metaKey  = 'm'
	knownKey = 'f'
	placeLen = 1 + 8 + 8 + 4 + 4 + 1 + 4
	sumLen   = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// key is the key of a chunk (chunkKey) or of a manifest (metaKey).
func key(prefix byte, d agentbox.Digest) []byte { return append([]byte{prefix}, d[:]...) }

func fingerprintKeyOf(f blob.Fingerprint) []byte { return append([]byte{knownKey}, f[:]...) }

// seal appends the checksum (CRC-32C) of a key and its value. It includes the key, so that a value
// under the wrong key fails, too.
func seal(key, value []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
	return binary.BigEndian.AppendUint32(value, sum)
}

// unseal checks and removes the checksum. The result is a part of value.
func unseal(key, value []byte) ([]byte, bool) {
	if len(value) < sumLen {
		return nil, false
	}
	body := value[:len(value)-sumLen]
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
	return body, binary.BigEndian.Uint32(value[len(body):]) == sum
}

// encodeLocation has no padding and a fixed length, as there are millions. Integers are big-endian.
func encodeLocation(p Location) []byte {
	b := make([]byte, 0, placeLen+sumLen)
	image := byte(0)
	if p.Image {
		image = 1
	}
	b = append(b, image)
	b = binary.BigEndian.AppendUint64(b, p.File)
	b = binary.BigEndian.AppendUint64(b, uint64(p.Off))
	b = binary.BigEndian.AppendUint32(b, p.Stored)
	b = binary.BigEndian.AppendUint32(b, p.Size)
	b = append(b, byte(p.Encoding))
	return binary.BigEndian.AppendUint32(b, p.Seen)
}

// decodeLocation refuses what encodeLocation would not have written, and sizes beyond those of any
// piece, because readers allocate that much.
func decodeLocation(b []byte) (Location, bool) {
	if len(b) != placeLen || b[0] > 1 || b[25] > byte(blob.Zstd) {
		return Location{}, false
	}
	p := Location{
		Image: b[0] == 1, File: binary.BigEndian.Uint64(b[1:]), Off: int64(binary.BigEndian.Uint64(b[9:])),
		Stored: binary.BigEndian.Uint32(b[17:]), Size: binary.BigEndian.Uint32(b[21:]),
		Encoding: blob.Encoding(b[25]), Seen: binary.BigEndian.Uint32(b[26:]),
	}
	return p, p.Off >= 0 && p.Size <= blob.MaxPiece && p.Stored <= p.Size
}

// encodeMeta writes JSON: there are few manifests, and fields may be added.
func encodeMeta(m Meta) ([]byte, error) { return json.Marshal(m) }

func decodeMeta(b []byte) (Meta, bool) {
	var m Meta
	err := json.Unmarshal(b, &m)
	return m, err == nil && m.Kind.Valid() && m.Size >= 0 && m.Chunks >= 0 && m.Charged >= 0 && m.Uses >= 0
}
