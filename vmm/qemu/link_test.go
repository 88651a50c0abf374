package qemu

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"agentbox/vmm"
	"agentbox/vmm/child"
)

// twoLinks are both ends of one cable; the other is what QEMU would be.
func twoLinks(t *testing.T) (ours *link, theirs net.Conn) {
	t.Helper()
	conn, file, err := child.SocketPair("network")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	theirs, err = net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	l := newLink(conn)
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		theirs.Close()
	})
	return l, theirs
}

func TestLinkFrames(t *testing.T) {
	l, theirs := twoLinks(t)
	go func() {
		theirs.Write([]byte("\x00\x00\x00\x02hi\x00\x00\x00\x00"))
		theirs.Write(append([]byte{0, 0, 16, 0}, make([]byte, 4096)...)) // longer than the reader likes
		theirs.Write([]byte("\x00\x00\x00\x05there\x00\x00"))
		theirs.Close()
	}()
	buf := make([]byte, 100)
	for _, want := range []string{"hi", ""} {
		if n, err := l.ReadFrame(buf); err != nil || string(buf[:n]) != want {
			t.Errorf("read %q (%v), want %q", buf[:n], err, want)
		}
	}
	if _, err := l.ReadFrame(buf); !errors.Is(err, vmm.ErrLongFrame) {
		t.Errorf("a long frame is %v", err)
	}
	if n, err := l.ReadFrame(buf); err != nil || string(buf[:n]) != "there" {
		t.Errorf("read %q (%v) behind a long frame", buf[:n], err)
	}
	if _, err := l.ReadFrame(buf); err == nil {
		t.Error("half a frame was read")
	}
}

func TestLinkWrites(t *testing.T) {
	l, theirs := twoLinks(t)
	parts := [][]byte{[]byte("ab"), nil, []byte("c")}
	if err := l.WriteFrame(parts...); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 7)
	if _, err := io.ReadFull(theirs, got); err != nil || !bytes.Equal(got, []byte("\x00\x00\x00\x03abc")) {
		t.Errorf("QEMU reads %q (%v)", got, err)
	}
	if string(parts[0]) != "ab" || string(parts[2]) != "c" {
		t.Errorf("the parts have become %q", parts)
	}
	theirs.Close()
	if err := l.WriteFrame([]byte("x")); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing to a cable without an end says %v", err)
	}
}
