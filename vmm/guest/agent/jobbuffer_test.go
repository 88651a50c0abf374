//go:build linux

package agent

import (
	"testing"

	"agentbox/vmm/guest/protocol"
)

// What gives way to new output is what the reader has, down to the byte, before anything that it
// has not.
func TestBufferDropsReadBytesFirst(t *testing.T) {
	b := newJobBuffer()
	b.attach(0)
	b.setBlocking(true)
	put := func(n int) { b.write(protocol.JobOutput, make([]byte, n), nil) }
	const read, grown = 1000, 500
	put(read)
	buf := make([]byte, protocol.MaxJobFrame)
	if got, _, ok := b.take(0, buf, nil); !ok || len(got.data) != read {
		t.Fatalf("%d bytes, %v", len(got.data), ok)
	}
	put(grown) // goes to the same chunk
	for left := maxJobBuffer - grown; left > 0; {
		n := min(left, protocol.MaxJobFrame)
		put(n)
		left -= n
	}
	if got, _, ok := b.take(read, buf, nil); !ok || got.at != read {
		t.Errorf("after byte %d comes byte %d", read, got.at)
	}
}

// A job that writes before the channel it was started on is served loses nothing.
func TestBufferWaitsForFirstReader(t *testing.T) {
	b := newJobBuffer()
	began, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for range 2 * maxJobBuffer / protocol.MaxJobFrame {
			b.write(protocol.JobOutput, make([]byte, protocol.MaxJobFrame), nil)
		}
	}()
	go func() {
		for end := uint64(0); end < maxJobBuffer; {
			end, _ = b.status()
		}
		close(began)
	}()
	<-began
	b.attach(0)
	b.setBlocking(true)
	buf := make([]byte, protocol.MaxJobFrame)
	for at := uint64(0); at < 2*maxJobBuffer; {
		got, _, ok := b.take(at, buf, nil)
		if !ok || got.at != at {
			t.Fatalf("after byte %d comes byte %d", at, got.at)
		}
		at += uint64(len(got.data))
	}
	<-done
}
