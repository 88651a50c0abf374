package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// netServer is the far end of network tests. A client requests one transfer by one line: "down N"
// to receive N bytes, "up N" to send that many and get one byte when all have arrived. It closes a
// connection without a request. wg has the goroutines that accept and serve; close waits for them.
type netServer struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu sync.Mutex
	// open are the connections that are being served; nil once the server is closed.
	open map[net.Conn]struct{}
}

// maxNetRequest limits one request, in bytes.
const maxNetRequest = 1 << 40

// newNetServer serves on l, which it owns. The caller ends it with close.
func newNetServer(l net.Listener) *netServer {
	s := &netServer{listener: l, open: map[net.Conn]struct{}{}}
	s.wg.Go(s.accept)
	return s
}

func (s *netServer) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// accept serves until the listener is closed. It closes a connection that arrives just then.
func (s *netServer) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.open != nil {
			s.open[c] = struct{}{}
			s.wg.Go(func() { s.serve(c) })
		} else {
			c.Close()
		}
		s.mu.Unlock()
	}
}

// serve answers one client.
func (s *netServer) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
	}()
	in := bufio.NewReaderSize(c, netBuffer)
	line, err := in.ReadString('\n')
	if err != nil {
		return
	}
	_ = answer(c, in, strings.TrimSpace(line)) // the client sees what is missing
}

// netBuffer is the most that one read or write of either side moves, in bytes.
const netBuffer = 256 << 10

// answer carries out a request. "up" ends when everything has arrived, not when the client has sent
// it, so that buffers on the way do not count as sent.
func answer(out io.Writer, in *bufio.Reader, line string) error {
	what, amount, _ := strings.Cut(line, " ")
	n, err := strconv.ParseInt(amount, 10, 64)
	if err != nil || n < 0 || n > maxNetRequest {
		return fmt.Errorf("%q is not a request", line)
	}
	switch what {
	case "down":
		_, err = io.CopyBuffer(struct{ io.Writer }{out}, io.LimitReader(zeros{}, n), make([]byte, netBuffer))
	case "up":
		if _, err = io.CopyN(io.Discard, in, n); err == nil {
			_, err = out.Write([]byte{'.'})
		}
	default:
		err = fmt.Errorf("%q is not a request", line)
	}
	return err
}

// zeros is an endless stream of zero bytes. Nothing on the way compresses them.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// close ends every connection and returns when all goroutines have ended. A nil server is valid.
func (s *netServer) close() error {
	if s == nil {
		return nil
	}
	err := s.listener.Close()
	s.mu.Lock()
	for c := range s.open {
		c.Close()
	}
	s.open = nil
	s.mu.Unlock()
	s.wg.Wait()
	return err
}
