package gvisor

import (
	"agentbox/vmm/child"
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// received takes over the descriptors that came with a message: the connection to the sandbox, and
// the cable if the machine has a card. On an error all of them are closed.
func received(fds []int, card bool) (*net.UnixConn, *link, error) {
	if want := map[bool]int{false: 1, true: 2}[card]; len(fds) != want {
		closeDescriptors(fds)
		return nil, nil, errors.New("no connection came with the launcher's answer")
	}
	conn, err := child.Conn(fds[0], "sandbox")
	if !card || err != nil {
		closeDescriptors(fds[1:])
		return conn, nil, err
	}
	l, err := newLink(fds[1])
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, l, nil
}

// descriptors are those that came with a message, in order. They are close-on-exec, as ReadMsgUnix
// makes them. The launcher is ours: what cannot be read never came.
func descriptors(rights []byte) (all []int) {
	messages, _ := unix.ParseSocketControlMessage(rights)
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		all = append(all, fds...)
	}
	return all
}

func closeDescriptors(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
