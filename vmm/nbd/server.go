package nbd

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"agentbox/vmm"
)

// inFlight is how many requests are answered at once: those that wait for bytes from far away must
// not keep others from those that are here. QEMU asks for 16 at most.
const inFlight = 64

// Serve answers one client until it leaves or ctx ends, and closes the connection. A read that
// fails while ctx goes on is answered with an error, one that ctx ended with nothing. It returns
// nil when the client left in good order. An error means that the client broke the protocol or that
// the connection failed. All goroutines of the session have ended when Serve returns.
func Serve(ctx context.Context, conn net.Conn, image vmm.Blocks) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	s := &session{ctx: ctx, conn: conn, in: bufio.NewReaderSize(conn, 4<<10), image: image, hands: make(chan struct{}, inFlight)}
	agreed, err := s.handshake()
	if err == nil && agreed {
		err = s.serve()
	}
	cancel() // reads for it may stop
	s.work.Wait()
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// session is one connection. Only the goroutine of Serve reads from in; answers are written by a
// goroutine for each request.
type session struct {
	ctx   context.Context
	conn  net.Conn
	in    *bufio.Reader
	image vmm.Blocks
	// A slot for each request that is being answered, so at most inFlight goroutines run.
	hands chan struct{}
	work  sync.WaitGroup
	mu    sync.Mutex // one answer is written at a time
}

// handshake tells whether the client wants the image. Flags of the client that we have not offered
// end the conversation, as the protocol demands.
func (s *session) handshake() (bool, error) {
	hello := binary.BigEndian.AppendUint64(nil, magicServer)
	hello = binary.BigEndian.AppendUint64(hello, magicOption)
	if _, err := s.conn.Write(binary.BigEndian.AppendUint16(hello, flagFixedNewstyle|flagNoZeroes)); err != nil {
		return false, err
	}
	var theirs [4]byte
	if _, err := io.ReadFull(s.in, theirs[:]); err != nil {
		return false, err
	}
	flags := binary.BigEndian.Uint32(theirs[:])
	if flags&^(flagFixedNewstyle|flagNoZeroes) != 0 {
		return false, errProtocol
	}
	for range maxOptions {
		o, err := readOption(s.in)
		if err != nil {
			return false, err
		}
		if agreed, done, err := s.option(o, flags); done || err != nil {
			return agreed, err
		}
	}
	return false, errProtocol
}

// option answers one option; done ends the handshake, and agreed says whether with a client that
// wants the image. Unknown options are refused and the client goes on, which is how TLS, structured
// replies and other extensions are declined.
func (s *session) option(o option, flags uint32) (agreed, done bool, err error) {
	switch o.what {
	case optExportName: // has no answer but the export itself
		b := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(nil, uint64(s.image.Size())), exportFlags)
		if flags&flagNoZeroes == 0 {
			b = append(b, make([]byte, 124)...)
		}
		_, err := s.conn.Write(b)
		return true, true, err
	case optAbort:
		return false, true, writeReply(s.conn, o.what, repAck, nil)
	case optList:
		if len(o.data) != 0 {
			return false, false, writeReply(s.conn, o.what, repErrInval, nil)
		}
		return false, false, errors.Join(writeReply(s.conn, o.what, repServer, make([]byte, 4)), writeReply(s.conn, o.what, repAck, nil))
	case optInfo, optGo:
		if !o.wellFormed() {
			return false, false, writeReply(s.conn, o.what, repErrInval, nil)
		}
		return o.what == optGo, o.what == optGo, s.describe(o.what)
	}
	return false, false, writeReply(s.conn, o.what, repErrUnsup, nil)
}

// exportFlags tell that there is nothing to write and that several connections would see the same
// bytes, which an image that never changes makes true.
const exportFlags = flagHasFlags | flagReadOnly | flagMultiConn

// describe tells size and block sizes, whatever the export's name: there is one.
func (s *session) describe(what uint32) error {
	export := binary.BigEndian.AppendUint16(nil, infoExport)
	export = binary.BigEndian.AppendUint64(export, uint64(s.image.Size()))
	export = binary.BigEndian.AppendUint16(export, exportFlags)
	blocks := binary.BigEndian.AppendUint16(nil, infoBlockSize)
	for _, n := range []uint32{minBlock, bestBlock, maxRead} {
		blocks = binary.BigEndian.AppendUint32(blocks, n)
	}
	return errors.Join(writeReply(s.conn, what, repInfo, export), writeReply(s.conn, what, repInfo, blocks), writeReply(s.conn, what, repAck, nil))
}

// serve answers requests, many at once, until the client disconnects.
func (s *session) serve() error {
	for {
		a, err := readAsk(s.in)
		if err != nil {
			return err
		}
		if a.what == cmdDisc {
			return nil
		}
		if a.what == cmdWrite { // its bytes come all the same
			if _, err := io.CopyN(io.Discard, s.in, int64(a.n)); err != nil {
				return err
			}
		}
		select {
		case s.hands <- struct{}{}:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
		s.work.Go(func() {
			defer func() { <-s.hands }()
			s.answer(a)
		})
	}
}

// answer reads and replies. A request that is refused or fails gets an answer without bytes, and
// the session goes on; one that the end of the session interrupts gets none. A connection that
// cannot be written to is closed, which ends the session: no request may wait for an answer for
// ever.
func (s *session) answer(a ask) {
	b := make([]byte, answerSize)
	code := a.check(s.image.Size())
	if code == 0 {
		b = make([]byte, answerSize+int(a.n))
		if err := s.image.ReadBlocks(s.ctx, b[answerSize:], int64(a.off)); err != nil {
			if s.ctx.Err() != nil {
				return
			}
			code = errIO
		}
	}
	if code != 0 {
		b = b[:answerSize]
	}
	putAnswer(b, a.cookie, code)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.conn.Write(b); err != nil {
		s.conn.Close()
	}
}
