package nbd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// What messages begin with: a server's first words, each of a client's options, our replies to
	// those; then a client's requests and our answers to them.
	magicServer = 0x4e42444d41474943 // NBDMAGIC
	magicOption = 0x49484156454f5054 // IHAVEOPT
	magicReply  = 0x0003e889045565a9
	magicAsk    = 0x25609513
	magicAnswer = 0x67446698

	flagFixedNewstyle = 1 << 0 // of the handshake, ours and theirs
	flagNoZeroes      = 1 << 1

	// Options of the handshake. The first is the oldest way to ask for an export and has no way to
	// refuse, the last is what QEMU uses.
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

	// Requests. Others, such as FLUSH, a client makes only where exportFlags offer them.
	cmdRead  = 0
	cmdWrite = 1
	cmdDisc  = 2

	// Errors in answers, numbered as on Linux.
	errPerm  = 1
	errIO    = 5
	errInval = 22
)

const (
	// What one client may make us hold: option data in the handshake, then inFlight answers of
	// maxRead bytes at most, 128 MiB together. The protocol's usual maximum of 32 MiB would make
	// that 2 GiB, for a VMM that a guest has taken over. The block sizes are told to the client,
	// and QEMU cuts its requests to them; requests of single bytes are legal, but a client does
	// best with pages.
	maxOption  = 64 << 10 // bytes of an option: names have at most 4096
	maxOptions = 1000     // a client that asks for more is not after an image
	maxRead    = 2 << 20
	minBlock   = 1
	bestBlock  = 4096
)

// errProtocol ends a conversation with a client that cannot be understood. It is not answered:
// after a message of unknown length nothing that follows has a meaning.
var errProtocol = errors.New("the client does not speak NBD")

// option is one request of the handshake, what being one of the opt constants or anything else.
type option struct {
	what uint32
	data []byte
}

// readOption refuses data that is longer than maxOption before it makes room for it.
func readOption(r io.Reader) (option, error) {
	var head [16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return option{}, err
	}
	n := binary.BigEndian.Uint32(head[12:])
	if binary.BigEndian.Uint64(head[:]) != magicOption || n > maxOption {
		return option{}, fmt.Errorf("%w: an option of %d bytes", errProtocol, n)
	}
	o := option{what: binary.BigEndian.Uint32(head[8:]), data: make([]byte, n)}
	_, err := io.ReadFull(r, o.data)
	return o, err
}

// wellFormed tells whether the data of INFO or GO is: a name and a list of what the client wants to
// know, which we tell anyway.
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

// writeReply answers an option: what is the option's number, kind one of the rep constants.
func writeReply(w io.Writer, what, kind uint32, data []byte) error {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 20+len(data)), magicReply)
	b = binary.BigEndian.AppendUint32(b, what)
	b = binary.BigEndian.AppendUint32(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	_, err := w.Write(append(b, data...))
	return err
}

// ask is one request after the handshake. cookie is the client's own name for it, which its answer
// has to repeat, since answers come in any order; off and n are in bytes and not yet checked.
type ask struct {
	flags, what uint16
	cookie      uint64
	off         uint64
	n           uint32
}

// askSize is the length of a request on the wire, without the bytes that follow a WRITE.
const askSize = 28

// readAsk waits for the next request. io.EOF before its first byte means that the client has left.
func readAsk(r io.Reader) (ask, error) {
	var b [askSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return ask{}, err
	}
	return decodeAsk(b)
}

// decodeAsk takes the bytes apart and checks the magic number only: see check for the rest.
func decodeAsk(b [askSize]byte) (ask, error) {
	if binary.BigEndian.Uint32(b[:]) != magicAsk {
		return ask{}, fmt.Errorf("%w: a request begins with %x", errProtocol, b[:4])
	}
	return ask{
		flags: binary.BigEndian.Uint16(b[4:]), what: binary.BigEndian.Uint16(b[6:]), cookie: binary.BigEndian.Uint64(b[8:]),
		off: binary.BigEndian.Uint64(b[16:]), n: binary.BigEndian.Uint32(b[24:]),
	}, nil
}

// check tells what is wrong with a request for an image of size bytes, as an error for its answer:
// 0 for nothing. The sums are unsigned and written so that they cannot overflow.
func (a ask) check(size int64) uint32 {
	switch {
	case a.what == cmdWrite:
		return errPerm
	case a.what != cmdRead, a.n > maxRead, a.off > uint64(size), uint64(a.n) > uint64(size)-a.off:
		return errInval
	}
	return 0
}

// answerSize is the length of the head of an answer, which the bytes of a READ follow.
const answerSize = 16

// putAnswer writes the head of an answer into b, which has at least answerSize bytes. code is 0 or
// one of the err constants.
func putAnswer(b []byte, cookie uint64, code uint32) {
	binary.BigEndian.PutUint32(b, magicAnswer)
	binary.BigEndian.PutUint32(b[4:], code)
	binary.BigEndian.PutUint64(b[8:], cookie)
}
