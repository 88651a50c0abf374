package gvisor

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// received takes over the descriptors that came with a message: the connection to the sandbox, and the cable if the machine
// has a card.
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
	var l *link
	if card {
		l = newLink(fds[1])
	}
	conn, err := unixConn(fds[0], "sandbox")
	if err != nil && l != nil {
		err = errors.Join(err, l.Close())
	}
	return conn, l, err
}

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
