package gvisor

import (
	"agentbox/vmm/child"
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// received takes over the descriptors that came with a message: the connection to the sandbox, and
// the cable if the machine has a card. On an error all of them are closed.
func received(rights []byte, card bool) (*net.UnixConn, *link, error) {
	fds, err := descriptors(rights)
	want := 1
	if card {
		want = 2
	}
	if err == nil && len(fds) != want {
		err = errors.New("no connection came with the launcher's answer")
	}
	if err != nil {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return nil, nil, err
	}
	conn, err := child.Conn(fds[0], "sandbox")
	if !card || err != nil {
		for _, fd := range fds[1:] {
			unix.Close(fd)
		}
		return conn, nil, err
	}
	l, err := newLink(fds[1])
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, l, nil
}

// descriptors are those that came with a message, in order. They are close-on-exec, as ReadMsgUnix
// makes them. With an error it returns those that it found, for the caller to close.
func descriptors(rights []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return all, err
		}
		all = append(all, fds...)
	}
	return all, nil
}
