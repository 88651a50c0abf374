package nbd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// How messages begin. In the handshake: the server's first message, the client's options, and
	// our replies to them. After it: the client's requests and our answers.
	magicServer  = 0x4e42444d41474943 // NBDMAGIC
	magicOption  = 0x49484156454f5054 // IHAVEOPT
	magicReply   = 0x0003e889045565a9
	magicRequest = 0x25609513
	magicAnswer  = 0x67446698

	flagFixedNewstyle = 1 << 0 // of the handshake, ours and theirs
	flagNoZeroes      = 1 << 1

	// Options of the handshake. The first is the oldest way to ask for an export and cannot be
	// refused. QEMU uses the last.
	optExportName = 1
	optAbort      = 2
	optList       = 3
	optInfo       = 6
	optGo         = 7

	// Kinds of replies to options; errors have the highest bit set.
	repAck      = 1
	repServer   = 2
	repInfo     = 3
	repErr      = 1 << 31
	repErrUnsup = repErr + 1
	repErrInval = repErr + 3

	// What a reply of kind repInfo is about.
	infoExport    = 0
	infoBlockSize = 3

	flagHasFlags  = 1 << 0 // of an export
	flagReadOnly  = 1 << 1
	flagMultiConn = 1 << 8

	// Types of requests. A client makes others, such as FLUSH, only if exportFlags offer them.
	cmdRead  = 0
	cmdWrite = 1
	cmdDisc  = 2

	// Errors in answers, numbered as on Linux.
	errPerm  = 1
	errIO    = 5
	errInval = 22
)

const (
	// These bound the memory that one client can take: the data of an option in the handshake, then
	// inFlight answers of maxRead bytes, together 128 MiB. The usual maximum of the protocol, 32
	// MiB, would allow 2 GiB. The client learns the block sizes, and QEMU cuts its requests to
	// them. A request for a single byte is legal, but pages are best.
	maxOption      = 64 << 10 // bytes of an option; names have at most 4096
	maxOptions     = 1000     // of one client
	maxRead        = 2 << 20
	minBlock       = 1
	preferredBlock = 4096
)

// errProtocol ends the session of a client that cannot be understood. There is no answer to that:
// after a message of unknown length, nothing that follows has a meaning.
var errProtocol = errors.New("the client does not speak NBD")

// option is a request of the handshake.
type option struct {
	kind uint32 // one of the opt constants, or anything else
	data []byte
}

// readOption reads an option. It refuses data longer than maxOption before it allocates memory.
func readOption(r io.Reader) (option, error) {
	var head [16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return option{}, err
	}
	n := binary.BigEndian.Uint32(head[12:])
	if binary.BigEndian.Uint64(head[:]) != magicOption || n > maxOption {
		return option{}, fmt.Errorf("%w: an option of %d bytes", errProtocol, n)
	}
	o := option{kind: binary.BigEndian.Uint32(head[8:]), data: make([]byte, n)}
	_, err := io.ReadFull(r, o.data)
	return o, err
}

// wellFormed tells whether the data of an INFO or GO option is. It has a name and a list of what
// the client wants to know, which we ignore: the client gets everything.
func (o option) wellFormed() bool {
	if len(o.data) < 6 {
		return false
	}
	name := uint64(binary.BigEndian.Uint32(o.data))
	if name > uint64(len(o.data)-6) {
		return false
	}
	list := o.data[4+name:]
	return len(list) == 2+2*int(binary.BigEndian.Uint16(list))
}

// writeReply answers an option of this kind. kind is one of the rep constants.
func writeReply(w io.Writer, option, kind uint32, data []byte) error {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 20+len(data)), magicReply)
	b = binary.BigEndian.AppendUint32(b, option)
	b = binary.BigEndian.AppendUint32(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	_, err := w.Write(append(b, data...))
	return err
}

// request is one request after the handshake. off and n are in bytes and were not checked.
type request struct {
	flags, kind uint16
	cookie      uint64 // chosen by the client; the answer repeats it, since answers come in any order
	off         uint64
	n           uint32
}

// requestSize is the length of a request on the wire, without the bytes that follow a WRITE.
const requestSize = 28

// readRequest waits for the next request. io.EOF means that the client has left.
func readRequest(r io.Reader) (request, error) {
	var b [requestSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return request{}, err
	}
	return decodeRequest(b)
}

// decodeRequest checks the magic number and nothing else: see check.
func decodeRequest(b [requestSize]byte) (request, error) {
	if binary.BigEndian.Uint32(b[:]) != magicRequest {
		return request{}, fmt.Errorf("%w: a request begins with %x", errProtocol, b[:4])
	}
	return request{
		flags: binary.BigEndian.Uint16(b[4:]), kind: binary.BigEndian.Uint16(b[6:]), cookie: binary.BigEndian.Uint64(b[8:]),
		off: binary.BigEndian.Uint64(b[16:]), n: binary.BigEndian.Uint32(b[24:]),
	}, nil
}

// check returns the error code for the answer to a request for an image of size bytes, 0 if the
// request is right. The sums are unsigned and cannot overflow.
func (r request) check(size int64) uint32 {
	switch {
	case r.kind == cmdWrite:
		return errPerm
	case r.kind != cmdRead, r.n > maxRead, r.off > uint64(size), uint64(r.n) > uint64(size)-r.off:
		return errInval
	}
	return 0
}

// answerSize is the length of the header of an answer. The bytes of a READ follow it.
const answerSize = 16

// putAnswer writes the header of an answer into b, which has at least answerSize bytes. code is 0
// or one of the err constants.
func putAnswer(b []byte, cookie uint64, code uint32) {
	binary.BigEndian.PutUint32(b, magicAnswer)
	binary.BigEndian.PutUint32(b[4:], code)
	binary.BigEndian.PutUint64(b[8:], cookie)
}
