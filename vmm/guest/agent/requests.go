//go:build linux

package agent

import (
	"encoding/json"
	"fmt"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest/protocol"
)

// globalRequests answers the connection's requests one by one, in order, as SSH demands. A slow one
// delays those after it, and no session. Listeners end with the connection.
func (c *connection) globalRequests(requests <-chan *ssh.Request) {
	defer c.binds.close()
	for req := range requests {
		payload, ok := c.answer(req)
		if req.WantReply {
			req.Reply(ok, payload) // an error means that the connection is gone
		}
		if ok && req.Type == protocol.Quiesce {
			c.agent.goRecover("rest", func() { c.agent.endForTemplate(c.life) })
		}
	}
}

// answer handles one request and returns its reply. False is SSH's failure, with a Failure.
func (c *connection) answer(req *ssh.Request) ([]byte, bool) {
	switch req.Type {
	case "tcpip-forward":
		return c.listen(req.Payload)
	case "cancel-tcpip-forward":
		return nil, c.cancelListen(req.Payload)
	}
	result, err := c.agent.request(req.Type, req.Payload)
	if err != nil {
		c.agent.Log.Error("request failed", "request", req.Type, "err", err)
		result = protocol.Failure{Error: err.Error()}
	}
	payload, jsonErr := json.Marshal(result)
	return payload, err == nil && jsonErr == nil
}

// request handles one of the protocol's global requests, which came in a Hello or over SSH. The
// result is marshalled to JSON.
func (a *Agent) request(name string, payload []byte) (any, error) {
	empty := struct{}{}
	switch name {
	case protocol.Attach:
		var r protocol.AttachRequest
		if err := json.Unmarshal(payload, &r); err != nil {
			return nil, fmt.Errorf("malformed request: %w", err)
		}
		return empty, a.attach(r)
	case protocol.Detach:
		return empty, a.detach()
	case protocol.Quiesce:
		return empty, a.quiesce()
	case protocol.Freeze:
		if err := a.Machine.FreezeUser(); err != nil {
			return nil, err
		}
		a.Machine.Sync()
		return empty, nil
	case protocol.Thaw:
		if err := a.setClock(payload); err != nil {
			return nil, err
		}
		return empty, a.Machine.ThawUser()
	case protocol.Clock:
		return empty, a.setClock(payload)
	case protocol.Services:
		return a.manager.status(), nil
	case protocol.Jobs:
		return a.jobs.status(), nil
	case protocol.Stats:
		return a.Machine.Stats()
	}
	return nil, fmt.Errorf("unknown request %q", name)
}
