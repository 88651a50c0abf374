package guest

import (
	"io"
	"net"
	"testing"
	"time"
)

// Who notices late that one life is over does not end the next on the same stream.
func TestClosingOldLifeKeepsNext(t *testing.T) {
	host, guest := net.Pipe()
	defer guest.Close()
	old, err := newLifeConn(host)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := newLifeConn(host)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(guest, "x") }()
	b := make([]byte, 1)
	if _, err := next.Read(b); err != nil || b[0] != 'x' {
		t.Errorf("%q %v", b, err)
	}
}

// A guest reads nothing while its own write blocks. A host that did the same would wait for it for
// ever.
func TestHostReadsWhileWriteBlocks(t *testing.T) {
	host, guest := net.Pipe() // which holds nothing
	defer guest.Close()
	conn, err := newLifeConn(host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const much = 1 << 20
	go func() {
		_, _ = guest.Write(make([]byte, much))
		_, _ = io.Copy(io.Discard, guest)
	}()
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(make([]byte, much))
		written <- err
	}()
	select {
	case err := <-written:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("both ends wait for the other to read")
	}
	if n, err := io.ReadFull(conn, make([]byte, much)); err != nil {
		t.Errorf("%d bytes came: %v", n, err)
	}
}
