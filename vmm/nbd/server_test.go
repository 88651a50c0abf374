package nbd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// testImage is an image in memory; reads of its first byte wait for slow.
type testImage struct {
	bytes []byte
	slow  chan struct{}
	fail  error
}

func (t *testImage) Size() int64 { return int64(len(t.bytes)) }

func (t *testImage) ReadBlocks(ctx context.Context, b []byte, off int64) error {
	if off == 0 && t.slow != nil {
		select {
		case <-t.slow:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	copy(b, t.bytes[off:])
	return t.fail
}

func newPicture() *testImage {
	p := &testImage{bytes: make([]byte, 300_000)}
	for i := range p.bytes {
		p.bytes[i] = byte(i * 7 >> 4)
	}
	return p
}

// client is the other end, as the protocol's description has it.
type client struct {
	*testing.T
	net.Conn
	served chan error
}

func dial(t *testing.T, image *testImage) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	c := &client{t, ours, make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { c.served <- Serve(ctx, theirs, image) }()
	t.Cleanup(func() { cancel(); ours.Close() })
	ours.SetDeadline(time.Now().Add(time.Minute))
	if hello := c.read(18); !bytes.Equal(hello, []byte("NBDMAGICIHAVEOPT\x00\x03")) {
		t.Fatalf("hello %q", hello)
	}
	return c
}

func (c *client) read(n int) []byte {
	c.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		c.Fatal(err)
	}
	return b
}

func (c *client) send(parts ...any) {
	c.Helper()
	var b bytes.Buffer
	for _, p := range parts {
		if err := binary.Write(&b, binary.BigEndian, p); err != nil {
			c.Fatal(err)
		}
	}
	if _, err := c.Write(b.Bytes()); err != nil {
		c.Fatal(err)
	}
}

func (c *client) reply(what uint32) (kind uint32, data []byte) {
	c.Helper()
	h := c.read(20)
	if binary.BigEndian.Uint64(h) != magicReply || binary.BigEndian.Uint32(h[8:]) != what {
		c.Fatalf("reply % x to option %d", h, what)
	}
	return binary.BigEndian.Uint32(h[12:]), c.read(int(binary.BigEndian.Uint32(h[16:])))
}

// begin shakes hands as QEMU does: with GO.
func (c *client) begin(size int) {
	c.Helper()
	c.send(uint32(3), uint64(magicOption), uint32(optGo), uint32(10), uint32(4), []byte("name"), uint16(0))
	for {
		kind, data := c.reply(optGo)
		if kind == repAck {
			return
		}
		if kind == repInfo && binary.BigEndian.Uint16(data) == infoExport && binary.BigEndian.Uint64(data[2:]) != uint64(size) {
			c.Fatalf("export % x", data)
		}
	}
}

func (c *client) ask(what uint16, cookie, off uint64, n uint32) {
	c.Helper()
	c.send(uint32(magicRequest), uint16(0), what, cookie, off, n)
}

func (c *client) answer() (code uint32, cookie uint64) {
	c.Helper()
	h := c.read(answerSize)
	if binary.BigEndian.Uint32(h) != magicAnswer {
		c.Fatalf("answer % x", h)
	}
	return binary.BigEndian.Uint32(h[4:]), binary.BigEndian.Uint64(h[8:])
}

func TestReads(t *testing.T) {
	p := newPicture()
	c := dial(t, p)
	c.begin(len(p.bytes))
	for i, r := range []struct{ off, n int }{{0, 1}, {4095, 4098}, {299_999, 1}, {0, 300_000}, {300_000, 0}} {
		c.ask(cmdRead, uint64(i)<<40, uint64(r.off), uint32(r.n))
		if code, cookie := c.answer(); code != 0 || cookie != uint64(i)<<40 {
			t.Fatalf("code %d, cookie %x", code, cookie)
		}
		if got := c.read(r.n); !bytes.Equal(got, p.bytes[r.off:r.off+r.n]) {
			t.Errorf("%d bytes at %d differ", r.n, r.off)
		}
	}
	const flush = 3 // which is not offered
	c.ask(flush, 1, 0, 0)
	if code, _ := c.answer(); code != errInval {
		t.Errorf("a request that is not offered: %d", code)
	}
	c.ask(cmdDisc, 2, 0, 0)
	if err := <-c.served; err != nil {
		t.Error(err)
	}
}

// A VMM that a guest has taken over may ask for as much as it likes, at once, of an image whose
// bytes do not come: its supervisor stays small.
func TestClientMemoryIsBounded(t *testing.T) {
	const most = 128 << 20
	if hold := inFlight * maxRead; hold > most {
		t.Errorf("%d answers of %d bytes are %d, more than %d", inFlight, maxRead, hold, most)
	}
}

func TestInvalidRequests(t *testing.T) {
	p := newPicture()
	c := dial(t, p)
	c.begin(len(p.bytes))
	for _, r := range []struct {
		what uint16
		off  uint64
		n    uint32
		want uint32
	}{
		{cmdRead, 299_999, 2, errInval}, {cmdRead, 1 << 63, 1, errInval}, {cmdRead, ^uint64(0), 2, errInval}, {cmdRead, 0, maxRead + 1, errInval},
		{4, 0, 4096, errInval}, {7, 0, 4096, errInval}, {99, 0, 0, errInval},
	} {
		c.ask(r.what, 7, r.off, r.n)
		if code, _ := c.answer(); code != r.want {
			t.Errorf("command %d for %d bytes at %d: code %d", r.what, r.n, r.off, code)
		}
	}
	c.ask(cmdWrite, 8, 0, 5)
	c.send([]byte("12345"))
	if code, cookie := c.answer(); code != errPerm || cookie != 8 {
		t.Errorf("a write: code %d", code)
	}
	p.fail = errors.New("gone")
	c.ask(cmdRead, 9, 0, 5)
	if code, _ := c.answer(); code != errIO {
		t.Errorf("a read that failed: code %d", code)
	}
}

// One that waits for bytes keeps nobody else from theirs, and ends with the server.
func TestOutOfOrderAnswers(t *testing.T) {
	p := newPicture()
	p.slow = make(chan struct{})
	c := dial(t, p)
	c.begin(len(p.bytes))
	for range inFlight - 1 {
		c.ask(cmdRead, 1, 0, 512)
	}
	c.ask(cmdRead, 2, 512, 512)
	if _, cookie := c.answer(); cookie != 2 {
		t.Fatalf("the first answer is to %d", cookie)
	}
	c.read(512)
	close(p.slow)
	for range inFlight - 1 {
		if code, cookie := c.answer(); code != 0 || cookie != 1 {
			t.Fatalf("code %d to %d", code, cookie)
		}
		c.read(512)
	}
}

func TestServerShutdown(t *testing.T) {
	p := newPicture()
	p.slow = make(chan struct{})
	ours, theirs := net.Pipe()
	defer ours.Close()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, theirs, p) }()
	c := &client{t, ours, served}
	c.read(18)
	c.begin(len(p.bytes))
	c.ask(cmdRead, 1, 0, 512)
	cancel()
	<-served
	if n, err := io.Copy(io.Discard, ours); n != 0 {
		t.Errorf("%d bytes were sent for a read that nobody could answer (%v)", n, err)
	}
}

func TestOptions(t *testing.T) {
	p := newPicture()
	c := dial(t, p)
	option := func(what uint32, data string) {
		c.send(uint64(magicOption), what, uint32(len(data)), []byte(data))
	}
	c.send(uint32(3))
	for _, o := range []struct {
		what uint32
		data string
		want uint32
	}{
		{5, "", repErrUnsup}, {8, "", repErrUnsup}, {77, "x", repErrUnsup}, {optList, "x", repErrInval},
		{optGo, "", repErrInval}, {optGo, "\xff\xff\xff\xffab", repErrInval}, {optInfo, "\x00\x00\x00\x00\x00\x02\x00\x00", repErrInval},
	} {
		option(o.what, o.data)
		if kind, _ := c.reply(o.what); kind != o.want {
			t.Errorf("option %d %q: %x", o.what, o.data, kind)
		}
	}
	option(optList, "")
	if kind, data := c.reply(optList); kind != repServer || !bytes.Equal(data, make([]byte, 4)) {
		t.Errorf("list: %x % x", kind, data)
	}
	c.reply(optList)
	option(optInfo, "\x00\x00\x00\x00\x00\x00")
	for kind := uint32(0); kind != repAck; {
		kind, _ = c.reply(optInfo)
	}
	option(optExportName, "any") // the old way to begin
	export := c.read(10)
	if binary.BigEndian.Uint64(export) != uint64(len(p.bytes)) || binary.BigEndian.Uint16(export[8:])&flagReadOnly == 0 {
		t.Errorf("export % x", export)
	}
	c.ask(cmdRead, 1, 10, 10)
	c.answer()
	if got := c.read(10); !bytes.Equal(got, p.bytes[10:20]) {
		t.Errorf("%q", got)
	}
}

// FuzzServe wants whatever a client says to be the end of the session at worst.
func FuzzServe(f *testing.F) {
	hello := "\x00\x00\x00\x03IHAVEOPT"
	f.Add([]byte(hello + "\x00\x00\x00\x07\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00" +
		"\x25\x60\x95\x13\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x10"))
	f.Add([]byte(hello + "\x00\x00\x00\x01\x00\x00\x00\x00\x25\x60\x95\x13\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x10"))
	f.Add([]byte(hello + "\x00\x00\x00\x03\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		var wg sync.WaitGroup
		wg.Go(func() { Serve(t.Context(), theirs, newPicture()) })
		wg.Go(func() { io.Copy(io.Discard, ours) })
		ours.Write(said)
		ours.Close()
		wg.Wait()
	})
}
