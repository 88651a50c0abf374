package environment

import (
	"context"
	"io"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
)

// unresponsiveConn is a connection that ends while a channel is asked for, in the moment in which
// the library does not notice it.
type unresponsiveConn struct {
	ssh.Conn
	ended chan struct{}
}

func (u unresponsiveConn) OpenChannel(string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	select {}
}

func (u unresponsiveConn) Wait() error {
	<-u.ended
	return io.EOF
}

func TestOpenChannelEndsWithConnection(t *testing.T) {
	d := unresponsiveConn{ended: make(chan struct{})}
	client := &ssh.Client{Conn: d}
	time.AfterFunc(10*time.Millisecond, func() { close(d.ended) })
	ctx, cancel := context.WithTimeout(t.Context(), AnswerTimeout/2)
	defer cancel()
	_, _, err := OpenChannel(ctx, client, "session", nil)
	if agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Fatalf("openChannel on a connection that ended: %v", err)
	}
	for range 100 { // the entry goes with the connection
		if _, there := connectionEnds.Load(client); !there {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("a connection that ended is still remembered")
}
