package toolgate

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox"
)

// NoteHeader tells the box's gateway what a request was, for the audit log. The box does not get it.
const NoteHeader = "Agentbox-Tool"

// notes collect what a request was, from what was done: reading it a second time could find something
// else in it than the SDK did.
type notes struct {
	of func(note string) // is told each

	mu   sync.Mutex
	list []string
}

func (n *notes) add(note string) {
	note = agentbox.Printable(agentbox.Clip(note))
	n.of(note)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, note)
}

func (n *notes) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return agentbox.Clip(strings.Join(n.list, ", "))
}

// middleware notes each request that the SDK understood, and that it refused one.
func (n *notes) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if call, ok := req.(*mcp.CallToolRequest); ok {
			n.add("call " + call.Params.Name)
		} else {
			n.add(method)
		}
		result, err := next(ctx, method, req)
		if err != nil {
			n.add("failed: " + err.Error())
		}
		return result, err
	}
}

// noting adds the notes to the head of an answer, which is written once the request is done.
type noting struct {
	http.ResponseWriter
	notes *notes
	begun bool
}

func (n *noting) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (n *noting) WriteHeader(status int) {
	if !n.begun {
		n.begun = true
		n.Header().Set(NoteHeader, n.notes.text())
	}
	n.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (n *noting) Write(p []byte) (int, error) {
	if !n.begun {
		n.WriteHeader(http.StatusOK)
	}
	return n.ResponseWriter.Write(p)
}
