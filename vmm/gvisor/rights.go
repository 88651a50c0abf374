package gvisor

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"agentbox/vmm"
	"agentbox/vmm/cable"
	"agentbox/vmm/child"
	"agentbox/vmm/gvisor/plan"
)

// takeDescriptors takes over the descriptors that came with a message, also after an error: the
// connection to the sandbox and, if card is set, the cable.
func takeDescriptors(fds []int, card bool) (*net.UnixConn, *cable.Link, error) {
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

// descriptors are those that came with a message. ReadMsgUnix makes them close-on-exec.
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

// newLink takes over a non-blocking packet socket, also if it fails. The launcher made fd in the
// machine's network namespace.
func newLink(fd int) (*cable.Link, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		unix.Close(fd)
		return nil, vmm.LinkError(os.NewSyscallError("setsockopt", err))
	}
	return cable.New(fd, plan.MTU)
}
