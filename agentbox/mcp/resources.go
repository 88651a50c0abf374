package mcp

import (
	"context"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/client"
)

func seconds(n float64) time.Duration {
	return time.Duration(max(0, min(n, 1e8)) * float64(time.Second))
}

const scheme = "agentbox://"

// addResources adds logs and diffs, for people who attach them to a conversation.
func (s Server) addResources(m *mcp.Server) {
	resource := func(kind, name, doc string, read func(context.Context, string) (string, error)) {
		about := &mcp.ResourceTemplate{URITemplate: scheme + kind + "/{id}/" + name, Name: kind + " " + name, Description: doc, MIMEType: "text/plain"}
		m.AddResourceTemplate(about, func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			id, ok := strings.CutPrefix(req.Params.URI, scheme+kind+"/")
			id, ok2 := strings.CutSuffix(id, "/"+name)
			if !ok || !ok2 || id == "" {
				return nil, mcp.ResourceNotFoundError(req.Params.URI)
			}
			text, err := read(ctx, id)
			if agentbox.CodeOf(err) == agentbox.NotFound {
				return nil, mcp.ResourceNotFoundError(req.Params.URI)
			}
			if err != nil {
				return nil, err
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: "text/plain", Text: clip(text)}}}, nil
		})
	}
	resource("task", "log", "what a task wrote", func(ctx context.Context, id string) (string, error) { return s.logs(ctx, taskIn{id}, nil) })
	resource("task", "diff", "what a task changed", s.diff)
	resource("box", "diff", "what changed in a box", s.diff)
	resource("box", "log", "the console of a box's machine", func(ctx context.Context, id string) (string, error) {
		out := bounded.Ends{Limit: maxText}
		err := client.Read(ctx, s.Client, api.BoxLog, api.BoxLogRequest{BoxRef: api.BoxRef{Box: id}}, &out)
		return string(out.Bytes()), err
	})
}
