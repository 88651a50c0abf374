package mcp

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/client"
)

// maxText bounds an answer, in bytes: some thousands of tokens.
const maxText = 24 << 10

// Server has the tools.
type Server struct {
	Client *client.Client
	// Directory is the checkout that calls without one are about; "" if there is none.
	Directory string
	Version   string
}

const instructions = `These tools give you isolated Linux boxes of a repository: a box has a copy of the checkout in /workspace, where you are an ordinary user with sudo. Nothing you do there touches the host.
Begin with box_up, then box_exec. Checkpoint before something risky, and box_rollback if it failed. A request that the policy denies fails with a message that says so; policy_why says which rule decided. Only a person can allow more: tell them the command it names.
task_submit starts work that goes on by itself in a box of its own.`

// New returns the SDK's server, for one client or many.
func (s Server) New() *mcp.Server { return s.new(nil) }

// new is New with what gives a session over HTTP its ID.
func (s Server) new(id func() string) *mcp.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "agentbox", Version: s.Version}, &mcp.ServerOptions{Instructions: instructions, GetSessionID: id})
	s.addBoxTools(m)
	s.addTaskTools(m)
	s.addResources(m)
	return m
}

// tool is what one tool does with its input: it returns the answer for the model.
type tool[In any] func(ctx context.Context, in In, progress agentbox.Progress) (string, error)

// hints say what a tool does, for clients that ask their user.
type hint int

const (
	looks hint = iota
	changes
	destroys // what cannot be had again
)

func add[In any](m *mcp.Server, name, doc string, h hint, do tool[In]) {
	addContent(m, name, doc, h, func(ctx context.Context, in In, progress agentbox.Progress) ([]mcp.Content, error) {
		text, err := do(ctx, in, progress)
		return []mcp.Content{&mcp.TextContent{Text: clip(text)}}, err
	})
}

// addContent adds a tool. An error is an answer, too, which the model can act on.
func addContent[In any](m *mcp.Server, name, doc string, h hint, do func(context.Context, In, agentbox.Progress) ([]mcp.Content, error)) {
	destructive, open := h == destroys, false
	about := &mcp.Tool{Name: name, Description: doc, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: h == looks, DestructiveHint: &destructive, OpenWorldHint: &open}}
	mcp.AddTool(m, about, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		content, err := do(ctx, in, progressOf(ctx, req))
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			content = []mcp.Content{&mcp.TextContent{Text: clip(errorText(err))}}
		}
		return &mcp.CallToolResult{IsError: err != nil, Content: content}, nil, nil
	})
}

// errorText is an error for a model.
func errorText(err error) string {
	e := agentbox.AsError(err)
	if e.Hint == "" {
		return "failed: " + e.Message
	}
	return "failed: " + e.Message + "\nhint: " + e.Hint
}

func progressOf(ctx context.Context, req *mcp.CallToolRequest) agentbox.Progress {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	var n atomic.Int64
	return func(e agentbox.Event) {
		text := strings.TrimSpace(e.Step + " " + e.Detail)
		// The number only has to grow. A client that went gets nothing, which is no error of ours.
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Message: agentbox.Clip(text), Progress: float64(n.Add(1))})
	}
}

// clip leaves the beginning and the end of a text that is too long.
func clip(text string) string {
	e := bounded.Ends{Limit: maxText}
	fmt.Fprint(&e, text)
	return strings.ToValidUTF8(string(e.Bytes()), "\ufffd")
}
