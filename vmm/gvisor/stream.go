package gvisor

import (
	"errors"
	"net"
	"os"
	"time"
)

// stream is two pipes to the guest agent as one connection. Pipes survive a checkpoint; sockets do
// not. It is a net.Conn because vmm.Machine requires one, and has no addresses.
type stream struct {
	r, w *os.File
}

// newStream makes both pipes. input and output are the guest's ends, which the caller closes when
// the launcher has them.
func newStream() (ours *stream, input, output *os.File, err error) {
	input, w, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	r, output, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, input.Close(), w.Close())
	}
	return &stream{r, w}, input, output, nil
}

func (s *stream) Read(p []byte) (int, error)  { return s.r.Read(p) }
func (s *stream) Write(p []byte) (int, error) { return s.w.Write(p) }
func (s *stream) Close() error                { return errors.Join(s.r.Close(), s.w.Close()) }

func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.r.SetReadDeadline(t), s.w.SetWriteDeadline(t))
}
func (s *stream) SetReadDeadline(t time.Time) error  { return s.r.SetReadDeadline(t) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.w.SetWriteDeadline(t) }
func (s *stream) LocalAddr() net.Addr                { return streamAddr{} }
func (s *stream) RemoteAddr() net.Addr               { return streamAddr{} }

type streamAddr struct{}

func (streamAddr) Network() string { return "agentbox" }
func (streamAddr) String() string  { return "agentbox" }
