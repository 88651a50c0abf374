package nbd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	magicServer = 0x4e42444d41474943 // NBDMAGIC
	magicOption = 0x49484156454f5054 // IHAVEOPT
	magicReply  = 0x0003e889045565a9
	magicAsk    = 0x25609513
	magicAnswer = 0x67446698

	flagFixedNewstyle = 1 << 0 // of the handshake, ours and theirs
	flagNoZeroes      = 1 << 1

	optExportName = 1
	optAbort      = 2
	optList       = 3
	optInfo       = 6
	optGo         = 7

	repAck      = 1
	repServer   = 2
	repInfo     = 3
	repErr      = 1 << 31
	repErrUnsup = repErr + 1
	repErrInval = repErr + 3

	infoExport    = 0
	infoBlockSize = 3

	flagHasFlags  = 1 << 0 // of an export
	flagReadOnly  = 1 << 1
	flagMultiConn = 1 << 8

	cmdRead  = 0
	cmdWrite = 1
	cmdDisc  = 2
	cmdFlush = 3
	cmdCache = 5

	errPerm  = 1
	errIO    = 5
	errInval = 22
)

const (
	maxOption  = 64 << 10 // bytes of an option: names have at most 4096
	maxOptions = 1000     // a client that asks for more is not after an image
	maxRead    = 32 << 20
	minBlock   = 1
	bestBlock  = 4096
)

var errProtocol = errors.New("the client does not speak NBD")

// option is one request of the handshake.
type option struct {
	what uint32
	data []byte
}

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

func writeReply(w io.Writer, what, kind uint32, data []byte) error {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 20+len(data)), magicReply)
	b = binary.BigEndian.AppendUint32(b, what)
	b = binary.BigEndian.AppendUint32(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	_, err := w.Write(append(b, data...))
	return err
}

// ask is one request after the handshake. cookie is the client's own name for it.
type ask struct {
	flags, what uint16
	cookie      uint64
	off         uint64
	n           uint32
}

const askSize = 28

func readAsk(r io.Reader) (ask, error) {
	var b [askSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return ask{}, err
	}
	return decodeAsk(b)
}

func decodeAsk(b [askSize]byte) (ask, error) {
	if binary.BigEndian.Uint32(b[:]) != magicAsk {
		return ask{}, fmt.Errorf("%w: a request begins with %x", errProtocol, b[:4])
	}
	return ask{
		flags: binary.BigEndian.Uint16(b[4:]), what: binary.BigEndian.Uint16(b[6:]), cookie: binary.BigEndian.Uint64(b[8:]),
		off: binary.BigEndian.Uint64(b[16:]), n: binary.BigEndian.Uint32(b[24:]),
	}, nil
}

// check tells what is wrong with a request for an image of size bytes: 0 for nothing.
func (a ask) check(size int64) uint32 {
	switch {
	case a.what == cmdWrite:
		return errPerm
	case a.what == cmdFlush:
		return 0
	case a.what != cmdRead && a.what != cmdCache, a.n > maxRead, a.off > uint64(size), uint64(a.n) > uint64(size)-a.off:
		return errInval
	}
	return 0
}

const answerSize = 16

// putAnswer writes the head of an answer into b.
func putAnswer(b []byte, cookie uint64, code uint32) {
	binary.BigEndian.PutUint32(b, magicAnswer)
	binary.BigEndian.PutUint32(b[4:], code)
	binary.BigEndian.PutUint64(b[8:], cookie)
}
