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

// inFlight is how many requests are answered at once, so that a request that waits for a missing
// block does not delay one for a block that is here. QEMU sends at most 16.
const inFlight = 64

// Serve answers one client until it leaves or ctx ends, and closes the connection. A failed read is
// answered with an error, and not at all if it failed because ctx ended. Serve returns nil when the
// client left in good order, and an error when it broke the protocol or the connection failed. All
// goroutines of the session have ended by then.
func Serve(ctx context.Context, conn net.Conn, image vmm.Blocks) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	s := &session{ctx: ctx, conn: conn, in: bufio.NewReaderSize(conn, 4<<10), image: image, slots: make(chan struct{}, inFlight)}
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

// session is one connection. Only the goroutine of Serve reads from in. Each request has a
// goroutine that writes its answer.
type session struct {
	ctx   context.Context
	conn  net.Conn
	in    *bufio.Reader
	image vmm.Blocks
	slots chan struct{} // one for each request that is being answered, at most inFlight
	work  sync.WaitGroup
	mu    sync.Mutex // held while an answer is written
}

// handshake returns whether the client wants the image. A client that sets flags that we have not
// offered breaks the protocol.
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

// option answers one option. done ends the handshake; agreed means that the client wants the image.
// An unknown option is refused and the client goes on without it, be it TLS, structured replies or
// another extension.
func (s *session) option(o option, flags uint32) (agreed, done bool, err error) {
	switch o.kind {
	case optExportName: // the answer is the export itself
		b := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(nil, uint64(s.image.Size())), exportFlags)
		if flags&flagNoZeroes == 0 {
			b = append(b, make([]byte, 124)...)
		}
		_, err := s.conn.Write(b)
		return true, true, err
	case optAbort:
		return false, true, writeReply(s.conn, o.kind, repAck, nil)
	case optList:
		if len(o.data) != 0 {
			return false, false, writeReply(s.conn, o.kind, repErrInval, nil)
		}
		return false, false, errors.Join(writeReply(s.conn, o.kind, repServer, make([]byte, 4)), writeReply(s.conn, o.kind, repAck, nil))
	case optInfo, optGo:
		if !o.wellFormed() {
			return false, false, writeReply(s.conn, o.kind, repErrInval, nil)
		}
		return o.kind == optGo, o.kind == optGo, s.describe(o.kind)
	}
	return false, false, writeReply(s.conn, o.kind, repErrUnsup, nil)
}

// exportFlags say that the export is read-only, and that several connections see the same bytes.
const exportFlags = flagHasFlags | flagReadOnly | flagMultiConn

// describe answers an option with the size and the block sizes of the one export.
func (s *session) describe(option uint32) error {
	export := binary.BigEndian.AppendUint16(nil, infoExport)
	export = binary.BigEndian.AppendUint64(export, uint64(s.image.Size()))
	export = binary.BigEndian.AppendUint16(export, exportFlags)
	blocks := binary.BigEndian.AppendUint16(nil, infoBlockSize)
	for _, n := range []uint32{minBlock, preferredBlock, maxRead} {
		blocks = binary.BigEndian.AppendUint32(blocks, n)
	}
	return errors.Join(writeReply(s.conn, option, repInfo, export), writeReply(s.conn, option, repInfo, blocks), writeReply(s.conn, option, repAck, nil))
}

// serve answers requests, many at once, until the client disconnects.
func (s *session) serve() error {
	for {
		q, err := readRequest(s.in)
		if err != nil {
			return err
		}
		if q.kind == cmdDisc {
			return nil
		}
		if q.kind == cmdWrite { // will be refused, but its bytes come first
			if _, err := io.CopyN(io.Discard, s.in, int64(q.n)); err != nil {
				return err
			}
		}
		select {
		case s.slots <- struct{}{}:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
		s.work.Go(func() {
			defer func() { <-s.slots }()
			s.answer(q)
		})
	}
}

// answer reads and replies. A request that is refused or fails gets an answer without bytes, and
// the session goes on. A request that the end of the session interrupts gets none. If the answer
// cannot be written, answer closes the connection and so ends the session: no request waits
// forever.
func (s *session) answer(q request) {
	b := make([]byte, answerSize)
	code := q.check(s.image.Size())
	if code == 0 {
		b = make([]byte, answerSize+int(q.n))
		if err := s.image.ReadBlocks(s.ctx, b[answerSize:], int64(q.off)); err != nil {
			if s.ctx.Err() != nil {
				return
			}
			code = errIO
		}
	}
	if code != 0 {
		b = b[:answerSize]
	}
	putAnswer(b, q.cookie, code)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.conn.Write(b); err != nil {
		s.conn.Close()
	}
}
