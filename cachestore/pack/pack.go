// Package pack is the format of pack files: chunks of streams and manifests, one record after the
// other, each of which says what it is, so that an index can be made anew by reading. It decides
// nothing about where records go.
package pack

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// Magic begins every pack; its last digit is the version.
const Magic = "ABXPACK1"

// HeaderSize is the length of what comes before the bytes of every record:
//
//	 0  4  "ABXr"
//	 4  1  what: 1 chunk, 2 manifest
//	 5  1  encoding of the bytes: 0 plain, 1 zstd
//	 6  2  zero
//	 8 32  SHA-256 of the decoded bytes
//	40  4  their number, big-endian
//	44  4  the number of bytes that follow this header, big-endian
//	48  4  CRC-32C of the 48 bytes before, big-endian
const HeaderSize = 52

const recordMagic = "ABXr"

// Kind a record holds.
type Kind uint8

// The kinds of records.
const (
	Chunk    Kind = 1
	Manifest Kind = 2
)

// Record describes the bytes that follow its header.
type Record struct {
	Kind     Kind
	Encoding blob.Encoding
	Digest   agentbox.Digest
	Size     int // decoded
	Stored   int // as they lie in the pack
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header encodes r.
func (r Record) Header() []byte {
	b := make([]byte, 0, HeaderSize)
	b = append(b, recordMagic...)
	b = append(b, byte(r.Kind), byte(r.Encoding), 0, 0)
	b = append(b, r.Digest[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Size))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Stored))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// errHeader means that there is no record: the tail of a write that a crash cut short, or damage.
var errHeader = agentbox.Errorf(agentbox.Corrupt, "no record of a pack")

// DecodeHeader reads what Header wrote.
func DecodeHeader(b []byte) (Record, error) {
	if len(b) != HeaderSize || string(b[:4]) != recordMagic ||
		binary.BigEndian.Uint32(b[48:]) != crc32.Checksum(b[:48], castagnoli) {
		return Record{}, errHeader
	}
	r := Record{
		Kind: Kind(b[4]), Encoding: blob.Encoding(b[5]), Digest: agentbox.Digest(b[8:40]),
		Size: int(binary.BigEndian.Uint32(b[40:])), Stored: int(binary.BigEndian.Uint32(b[44:])),
	}
	if r.Kind != Chunk && r.Kind != Manifest || r.Encoding > blob.Zstd || b[6] != 0 || b[7] != 0 ||
		r.Size > blob.MaxPiece || r.Stored > r.Size {
		return Record{}, errHeader
	}
	return r, nil
}

// resyncBuffer is how much is read at once when looking for the next record behind damage.
const resyncBuffer = 1 << 20

// Scan calls each with every record of a pack of the given size and the offset of its bytes, in
// order. each returns whether the bytes are those of the record. If they are not, the length in the
// header is not believed either: it may be the header of another pack that was stored as data,
// which a damaged header before it exposed. Scan then looks for the next header right behind this
// one, so that damage costs the records that it hit and no others.
func Scan(f io.ReaderAt, size int64, each func(r Record, off int64) (intact bool, err error)) error {
	header := make([]byte, HeaderSize)
	for at := int64(len(Magic)); at+HeaderSize <= size; {
		if _, err := f.ReadAt(header, at); err != nil {
			return err
		}
		r, err := DecodeHeader(header)
		intact, end := false, at+HeaderSize+int64(r.Stored)
		if err == nil && end <= size {
			if intact, err = each(r, at+HeaderSize); err != nil {
				return err
			}
		}
		if intact {
			at = end
			continue
		}
		if at, err = find(f, at+1, size); err != nil {
			return err
		}
	}
	return nil
}

// find returns the offset of the next header at or after at, or size.
func find(f io.ReaderAt, at, size int64) (int64, error) {
	buf := make([]byte, resyncBuffer+HeaderSize)
	for ; at < size; at += resyncBuffer {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := 0; i+HeaderSize <= n && i < resyncBuffer; i++ {
			if buf[i] != recordMagic[0] {
				continue
			}
			if _, err := DecodeHeader(buf[i : i+HeaderSize]); err == nil {
				return at + int64(i), nil
			}
		}
	}
	return size, nil
}
