package bounded

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"
)

func TestReadAheadReturnsAllBytesThenError(t *testing.T) {
	want := make([]byte, 1<<20)
	rand.Read(want)
	broken := errors.New("the line broke")
	a := NewReadAhead(io.MultiReader(bytes.NewReader(want), iotest.ErrReader(broken)), 64<<10)
	defer a.Close()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(a, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("what came is not what was sent: %v", err)
	}
	for range 2 {
		if n, err := a.Read(got); n != 0 || !errors.Is(err, broken) {
			t.Errorf("behind the last byte: %d, %v", n, err)
		}
	}
}

// tally counts what is read from it; it never ends.
type tally struct {
	mu   sync.Mutex
	read int
	full chan struct{} // closed when more than a bound was read
	most int
}

func (t *tally) Read(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read += len(p); t.read-len(p) < t.most && t.read >= t.most {
		close(t.full)
	}
	return len(p), nil
}

func TestReadAheadIsBounded(t *testing.T) {
	const most = 256 << 10
	source := &tally{full: make(chan struct{}), most: most}
	a := NewReadAhead(source, most)
	<-source.full // without anybody who reads
	a.Close()
	if source.read > most+readAheadPiece {
		t.Errorf("%d bytes were read ahead, of %d", source.read, most)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after Close: %v", err)
	}
}

// smallPair is two ends of a connection that hold a few KiB between them.
func smallPair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		for _, opt := range []int{syscall.SO_SNDBUF, syscall.SO_RCVBUF} {
			if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, opt, 4<<10); err != nil {
				t.Fatal(err)
			}
		}
		f := os.NewFile(uintptr(fd), "pair")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0], ends[1]
}

// Two SSH peers that both write much, and answer from the loop that reads: each can wait for the
// other to read. It is enough that one of them reads ahead.
func TestReadAheadPreventsSSHDeadlock(t *testing.T) {
	near, far := smallPair(t)
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	go busyPeer(far, signer)
	read := NewConn(near)
	conn, chans, reqs, err := ssh.NewClientConn(read, "", &ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(signer.PublicKey())})
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(conn, chans, reqs)
	done := make(chan error, 1)
	go func() { done <- busy(client) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Minute):
		t.Error("both ends wait for the other to read")
	}
	read.Close()
}

// busyPeer is an SSH server that writes much into each channel, reads nothing, and closes it.
func busyPeer(conn net.Conn, key ssh.Signer) {
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(key)
	_, chans, reqs, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	for nch := range chans {
		ch, reqs, err := nch.Accept()
		if err != nil {
			return
		}
		go ssh.DiscardRequests(reqs)
		go burst(ch)
	}
}

// burst writes into a channel what fits its window, and closes it. Nobody has to read it.
func burst(ch ssh.Channel) {
	ch.Write(make([]byte, 256<<10))
	ch.Close()
}

// busy does the same from the other side, in many channels at once. Each end's loop that reads has
// to answer the other's closes while its own bursts wait to be written.
func busy(client *ssh.Client) error {
	var work errgroup.Group
	for range 32 {
		work.Go(func() error {
			for range 2 {
				ch, reqs, err := client.OpenChannel("busy", nil)
				if err != nil {
					return err
				}
				burst(ch)
				for range reqs { // until the other end has closed it, too
				}
			}
			return nil
		})
	}
	return work.Wait()
}
