package gvisor

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// receivedConn is the one connection that came with a message.
func receivedConn(rights []byte) (*net.UnixConn, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil || len(fds) != 1 {
			continue
		}
		return unixConn(fds[0], "sandbox")
	}
	return nil, errors.New("no connection came with the launcher's answer")
}
