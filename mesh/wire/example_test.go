package wire_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"time"

	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Two members of a team talk over one UDP port each. Both certificates are checked against the
// member list, so who is dialled is who answers.
func ExampleNode_Dial() {
	_, root, err := ed25519.GenerateKey(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	list := identity.NewList(root.Public().(ed25519.PublicKey))
	var nodes []*wire.Node
	for i, name := range []string{"ann", "bob"} {
		public, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		entry, err := identity.Entry{Team: list.Team(), Key: public, Name: name, Serial: uint64(i + 1), Issued: time.Now()}.Sign(root)
		if err == nil {
			list, err = list.With(entry)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		node, err := wire.Listen(wire.Config{Key: key, Listen: "127.0.0.1:0", Log: discard})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer node.Close()
		nodes = append(nodes, node)
	}
	ann, bob := nodes[0], nodes[1]
	bob.Handle(wire.Blobs, func(ctx context.Context, c *wire.Conn) {
		s, err := c.AcceptStream(ctx)
		if err == nil {
			_, _ = fmt.Fprint(s, "hello")
			_ = s.Close()
		}
		<-c.Context().Done()
	})
	ann.Admit(list)
	bob.Admit(list)
	ann.AddAddresses(bob.Self(), bob.Addr())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, err := ann.Dial(ctx, bob.Self(), wire.Blobs)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	s, err := c.OpenStream(ctx)
	if err == nil {
		err = s.Close() // nothing is asked, and the other side sees the stream
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := io.ReadAll(s)
	fmt.Println(string(answer), err, c.Peer() == bob.Self())
	// Output:
	// hello <nil> true
}
