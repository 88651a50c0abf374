package fleet

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// guestHouse admits peer 1 to the box "shared", whose SSH server says hello and then waits.
type guestHouse struct {
	Local
	within context.Context
	left   int
}

func (g *guestHouse) Tasks() []agentbox.Task { return nil }

func (g *guestHouse) admit(_ context.Context, member identity.PeerID, name string) (Entrance, error) {
	if member != peer(1) || name != "shared" {
		return Entrance{}, agentbox.Errorf(agentbox.Forbidden, "you may not")
	}
	return Entrance{
		Within: g.within, Leave: func() { g.left++ },
		Enter: func(context.Context) (*api.Connection, *agentbox.Job, error) {
			return &api.Connection{Name: "shared", Dir: "/workspace"}, nil, nil
		},
		SSH: func(context.Context) (net.Conn, error) {
			box, server := net.Pipe()
			go server.Write([]byte("hello"))
			return box, nil
		},
	}, nil
}

// askBoxes asks a worker as a peer, and returns the answer and what follows it.
func askBoxes(t *testing.T, g *guestHouse, from identity.PeerID, q boxQuestion) (a boxAnswer, more net.Conn, done chan error) {
	t.Helper()
	here, there := net.Pipe()
	done = make(chan error, 1)
	w := &Worker{Local: g, Admit: g.admit}
	go func() { done <- w.answerBox(t.Context(), from, there) }()
	if err := wire.WriteMessage(here, q); err != nil {
		t.Fatal(err)
	}
	if err := wire.ReadMessage(here, &a, maxMessage); err != nil {
		t.Fatal(err)
	}
	return a, here, done
}

func TestGuest(t *testing.T) {
	within, withdraw := context.WithCancel(t.Context())
	g := &guestHouse{within: within}
	shared := BoxAt{Name: "shared"}
	for name, c := range map[string]struct {
		from identity.PeerID
		q    boxQuestion
		want agentbox.Code
	}{
		"a stranger":               {peer(2), boxQuestion{askBox, shared}, agentbox.Forbidden},
		"what is not shared":       {peer(1), boxQuestion{askSSH, BoxAt{Name: "other"}}, agentbox.Forbidden},
		"the output":               {peer(1), boxQuestion{askLogs, shared}, agentbox.Invalid},
		"a snapshot":               {peer(1), boxQuestion{askSave, shared}, agentbox.Invalid},
		"a task that is not of it": {peer(1), boxQuestion{askBox, BoxAt{Attempt: 1}}, agentbox.NotFound},
	} {
		if a, _, done := askBoxes(t, g, c.from, c.q); a.Code != c.want || a.Connection != nil || <-done != nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if a, _, done := askBoxes(t, g, peer(1), boxQuestion{askBox, shared}); a.Error != "" || a.Connection == nil || a.Job != nil || <-done != nil {
		t.Errorf("%+v", a)
	}
	a, in, done := askBoxes(t, g, peer(1), boxQuestion{askSSH, shared})
	hello := make([]byte, 5)
	if _, err := io.ReadFull(in, hello); a.Error != "" || err != nil || string(hello) != "hello" {
		t.Fatalf("%+v, %q, %v", a, hello, err)
	}
	withdraw()
	if _, err := in.Read(hello); err == nil {
		t.Error("the session goes on")
	}
	in.Close()
	if <-done; g.left != 2 {
		t.Errorf("left %d times", g.left)
	}
}

// FuzzBoxAnswer reads what another machine says of a box.
func FuzzBoxAnswer(f *testing.F) {
	f.Add([]byte(`{"connection":{"box":"0123456789ab","name":"-x","dir":"/workspace"},"job":{"id":"j-01020304","box":"ba9876543210"}}`), true)
	f.Add([]byte(`{"connection":{"dir":"--install-extension"}}`), false)
	f.Fuzz(func(t *testing.T, b []byte, ofTask bool) {
		var a boxAnswer
		at := BoxAt{Name: "shared"}
		if ofTask {
			at = BoxAt{Attempt: 1}
		}
		if json.Unmarshal(b, &a) != nil {
			return
		}
		c, j, err := a.entered(at)
		if err == nil && (c.Dir[0] != '/' || c.Name != c.Box.String() || j == nil && ofTask || j != nil && j.Box != c.Box) {
			t.Errorf("%+v, %+v", c, j)
		}
	})
}

// FuzzBoxQuestion asks a machine that shares nothing and runs nothing for anybody.
func FuzzBoxQuestion(f *testing.F) {
	f.Add([]byte(`{"do":"ssh","task":"t-00000000","attempt":0,"name":"shared"}`))
	f.Add([]byte(`{"do":"save","task":"t-01020304","attempt":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q boxQuestion
		if json.Unmarshal(b, &q) != nil {
			return
		}
		_, in, err := (&Worker{Local: &guestHouse{}, Admit: (&guestHouse{}).admit}).entrance(t.Context(), peer(2), q)
		if err == nil || in.SSH != nil && q.Name != "" {
			t.Errorf("%+v was let in", q)
		}
	})
}
