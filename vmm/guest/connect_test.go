package guest

import (
	"io"
	"net"
	"testing"
)

// Who notices late that one life is over does not end the next on the same stream.
func TestTheEndOfALifeIsNotThatOfTheNext(t *testing.T) {
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
