package ssh

import (
	"io"
	"net"
	"os/exec"
	"time"
)

// commandConn is the standard input and output of a command as a connection.
type commandConn struct {
	io.Reader
	io.WriteCloser
	cmd *exec.Cmd
}

func pipe(cmd *exec.Cmd) (net.Conn, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &commandConn{out, in, cmd}, cmd.Start()
}

func (c *commandConn) Close() error {
	err := c.WriteCloser.Close()
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	return err
}

func (c *commandConn) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (c *commandConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *commandConn) SetDeadline(time.Time) error      { return nil }
func (c *commandConn) SetReadDeadline(time.Time) error  { return nil }
func (c *commandConn) SetWriteDeadline(time.Time) error { return nil }
