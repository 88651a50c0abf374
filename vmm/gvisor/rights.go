package gvisor

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"

	"agentbox/vmm/child"
)

// takeDescriptors takes over the descriptors that came with a message, also after an error: the
// connection to the sandbox and, if card is set, the cable.
func takeDescriptors(fds []int, card bool) (*net.UnixConn, *link, error) {
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

// descriptors returns the descriptors that came with a message. ReadMsgUnix makes them
// close-on-exec.
func descriptors(rights []byte) (all []int) {
	messages, _ := unix.ParseSocketControlMessage(rights)
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		all = append(all, fds...)
	}
	return all
}

// closeDescriptors closes descriptors that arrived in a message and are not used.
func closeDescriptors(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
